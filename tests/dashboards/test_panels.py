"""Every query of every panel: it parses, it returns data, and the labels of its legend exist."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.prometheus import Prometheus

DEPLOY = Path("deploy")
DASHBOARDS = sorted((DEPLOY / "grafana/dashboards").glob("*.json"))
# What the shipped panels query only if something has gone wrong, or if drafts are accepted at all.
MAY_BE_EMPTY = re.compile(r"failures_total|rejected_total|retries_total")
LEGEND = re.compile(r"{{(\w+)}}")


def panels() -> list[tuple[str, dict[str, Any]]]:
    """All panels with their dashboards' names."""
    return [(file.stem, panel) for file in DASHBOARDS for panel in json.loads(file.read_text())["panels"]]


def queries() -> list[Any]:
    """All queries, named after panel."""
    return [
        pytest.param(
            target["expr"], target["legendFormat"], id=f"{board}: {panel['title']} {target['refId']}"
        )
        for board, panel in panels()
        for target in panel["targets"]
    ]


def filled(expr: str) -> str:
    """The query as Grafana sends it."""
    for variable, value in {"$__rate_interval": "10s", "$__interval": "10s", "$pair": ".*"}.items():
        expr = expr.replace(variable, value)
    assert "$" not in expr.replace("$)", "")
    return expr


def test_prometheus_reaches_router_and_engines_by_the_shipped_configuration(prometheus: Prometheus) -> None:
    assert prometheus.targets_up() == {"spec-router", "sglang"}


@pytest.mark.parametrize(("expr", "legend"), queries())
def test_query_returns_series_with_the_labels_of_its_legend(
    prometheus: Prometheus, expr: str, legend: str
) -> None:
    series = prometheus.query(filled(expr))
    if not series:
        assert MAY_BE_EMPTY.search(expr), "no data"
        return
    for label in LEGEND.findall(legend):
        assert all(one["metric"].get(label) for one in series), f"label {label} is missing"


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_dashboard_works_on_any_machine(file: Path) -> None:
    text = file.read_text()
    board = json.loads(text)
    assert "${DS_" not in text
    assert "__inputs" not in text
    assert board.get("id") is None
    assert set(re.findall(r'"uid": "([^"]+)"', text)) == {"prometheus", board["uid"]}
    assert "uid: prometheus" in (DEPLOY / "grafana/provisioning/datasources/prometheus.yml").read_text()


@pytest.mark.parametrize(
    ("board", "panel"), panels(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_panel_says_what_it_shows(board: str, panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"]["uid"] == "prometheus"


def test_switches_are_marked_with_their_reason(prometheus: Prometheus) -> None:
    marks = json.loads(DASHBOARDS[0].read_text())["annotations"]["list"]
    expr = filled(next(mark["expr"] for mark in marks if mark.get("name") == "switches"))
    seen = prometheus.query(f"max_over_time(({expr})[2m:2s])")
    assert {series["metric"]["reason"] for series in seen} >= {"high", "low"}


def test_alert_rules_are_loaded_and_quiet_under_normal_load(prometheus: Prometheus) -> None:
    groups = prometheus.get("rules", type="alert")["groups"]
    assert [rule["name"] for group in groups for rule in group["rules"] if rule["health"] == "err"] == []
    assert len(groups[0]["rules"]) >= 10
    firing = {
        rule["name"]
        for group in groups
        for rule in group["rules"]
        for alert in rule["alerts"]
        if alert["state"] == "firing"
    }
    assert firing <= {"Flapping", "MixedTooLong"}


def test_alert_rules_pass_their_unit_tests() -> None:
    subprocess.run(["promtool", "test", "rules", "alerts_test.yml"], cwd=DEPLOY / "prometheus", check=True)


def test_every_alert_links_a_paragraph_of_the_runbook() -> None:
    anchors = {
        line.removeprefix("## ").strip().lower().replace(" ", "-")
        for line in Path("docs/runbook.md").read_text().splitlines()
        if line.startswith("## ")
    }
    linked = re.findall(r"docs/runbook.md#(\S+)", (DEPLOY / "prometheus/alerts.yml").read_text())
    assert set(linked) == anchors
