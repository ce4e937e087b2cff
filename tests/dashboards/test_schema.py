"""The dashboards' JSON against Grafana's own schema of the 11.6 line, panels and queries included."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from tests.dashboards.test_panels import DASHBOARDS

Tree = dict[str, Any]
SCHEMAS = Path(__file__).parent / "schema"
# A panel's `type` and the schema of its options.
PANELS = {"timeseries": "timeseries", "state-timeline": "statetimeline"}
# The Prometheus data source's own fields of an annotation, which the schema for all data sources lacks.
OF_PROMETHEUS = ("titleFormat", "textFormat", "tagKeys")
# The schema says that a matcher's options are an object; for this matcher Grafana reads a regular expression.
BY_NAME = "byRegexp"


def schema(name: str, part: str | None = None) -> Draft7Validator:
    """A schema, or one of its definitions."""
    whole = json.loads((SCHEMAS / f"{name}.jsonschema.json").read_text())
    return Draft7Validator({**whole, "$ref": f"#/definitions/{part}"} if part else whole)


def known(board: Tree) -> Tree:
    """The dashboard without what is right although the schema does not know it."""
    board = copy.deepcopy(board)
    for annotation in board["annotations"]["list"]:
        for name in OF_PROMETHEUS:
            annotation.pop(name)
    for panel in board["panels"]:
        for override in panel["fieldConfig"]["overrides"]:
            if override["matcher"]["id"] == BY_NAME:
                assert isinstance(override["matcher"].pop("options"), str)
    return board


def faults(board: Tree) -> list[str]:
    """What the schemas say against a dashboard."""
    found = list(schema("dashboard").iter_errors(known(board)))
    for panel in board["panels"]:
        kind = PANELS[panel["type"]]
        if "options" in panel:
            found += schema(kind, "Options").iter_errors(panel["options"])
        found += schema(kind, "FieldConfig").iter_errors(panel["fieldConfig"]["defaults"].get("custom", {}))
        for target in panel["targets"]:
            found += schema("prometheus").iter_errors(target)
    return [f"{error.json_path}: {error.message[:300]}" for error in found]


@pytest.fixture(params=DASHBOARDS, ids=lambda file: file.stem)
def board(request: pytest.FixtureRequest) -> Tree:
    """One of the shipped dashboards."""
    read: Tree = json.loads(request.param.read_text())
    return read


def test_dashboard_is_what_grafana_takes(board: Tree) -> None:
    assert faults(board) == []


WRONG: dict[str, Callable[[Tree], object]] = {
    "without a version of the schema": lambda board: board.pop("schemaVersion"),
    "an unknown field": lambda board: board.update(style="dark"),
    "an unknown field of a panel": lambda board: known_panel(board).update(x=1),
    "a width as text": lambda board: known_panel(board)["gridPos"].update(w="12"),
    "an unknown drawing": lambda board: lines(board)["fieldConfig"]["defaults"]["custom"].update(
        lineWidth="2"
    ),
    "a query without an expression": lambda board: known_panel(board)["targets"][0].pop("expr"),
}


def known_panel(board: Tree) -> Tree:
    """Any panel."""
    panel: Tree = board["panels"][-1]
    return panel


def lines(board: Tree) -> Tree:
    """A panel of lines."""
    panel: Tree = next(panel for panel in board["panels"] if panel["type"] == "timeseries")
    return panel


@pytest.mark.parametrize("spoil", WRONG.values(), ids=WRONG)
def test_a_spoilt_dashboard_is_refused(board: Tree, spoil: Callable[[Tree], object]) -> None:
    spoil(board)
    assert faults(board)
