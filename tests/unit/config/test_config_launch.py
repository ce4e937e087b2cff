"""The section `launch`: what it takes, and what is said about the rest."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from router.config import Config, resolved
from router.config.launch import Launch

Load = Callable[..., Config]
Problems = Callable[..., list[str]]
SHIPPED = Path(__file__).parents[3] / "config.yaml"
LOCAL = "pairs: [{speculative: {url: 'http://127.0.0.1:30001'}, baseline: {url: 'http://localhost:30002'}}]\n"


def launch(load: Load, text: str, **options: str) -> Launch:
    found = load(f"launch: {{model: /m, tp: 8, {text}}}\n", **options).launch
    assert found is not None
    return found


def test_it_is_optional(load: Load) -> None:
    assert load("").launch is None
    assert load("launch: null\n").launch is None


def test_its_defaults(load: Load) -> None:
    found = launch(load, "")
    assert (found.gpus, found.profile, found.hardware, found.draft) == ("auto", "eagle3-chain", "auto", None)
    assert (found.concurrency.speculative, found.concurrency.baseline) == (32, 128)
    assert found.reserves.context == 1536 << 20
    assert found.ports.baseline.http == 30002


def test_the_example_in_the_shipped_file_is_right_and_lists_every_key(load: Load) -> None:
    lines = SHIPPED.read_text().partition("\n# launch:\n")[2].splitlines()
    text = "launch:\n" + "".join(f"{line.removeprefix('#')}\n" for line in lines)
    found = load(text, pair=LOCAL)

    def keys(value: object) -> object:
        return {key: keys(inner) for key, inner in value.items()} if isinstance(value, dict) else None

    assert keys(yaml.safe_load(text)["launch"]) == keys(resolved(found)["launch"])


def test_the_example_says_the_defaults(load: Load) -> None:
    text = SHIPPED.read_text().partition("\n# launch:\n")[2]
    example = yaml.safe_load(re.sub(r"^#", "", text, flags=re.MULTILINE))
    defaults = Launch.model_validate({"model": example["model"], "tp": example["tp"]})
    shown = Launch.model_validate(example)
    differ = {name for name in Launch.model_fields if getattr(shown, name) != getattr(defaults, name)}
    assert differ == {"draft", "engines"}


def test_words_of_a_command_are_text(load: Load) -> None:
    found = launch(load, "engines: {baseline: {args: [--ep-size, 8, x], env: {A: '1'}}}")
    assert found.engines.baseline.args == ("--ep-size", "8", "x")
    assert found.engines.baseline.env == {"A": "1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tp: 0", "launch.tp: is out of range, got 0; allowed: a whole number from 1 to 64"),
        ("gpus: many", 'launch.gpus: does not say which GPUs, got "many"; allowed: auto, COUNTxSIZE'),
        ("kv_share: 0", "launch.kv_share: is out of range, got 0; allowed: a number above 0 and below 1"),
        ("kv_share: x", "launch.kv_share: is not a number"),
        (
            "kv_dtype: int8",
            'launch.kv_dtype: is not one of the known words, got "int8"; allowed: auto, bf16,',
        ),
        ("kv_cell: 0", "launch.kv_cell: is out of range"),
        ("profile: a/b", 'launch.profile: is not the name of a profile, got "a/b"'),
        ("reserves: {spare: 0}", "launch.reserves.spare: must be more than zero"),
        ("first: both", "launch.first: is not one of the known words"),
        ("contxt: 1", "launch.contxt: is an unknown key, did you mean context?"),
        ("ports: {baseline: {http: 30001, nccl: 4}}", "launch.ports: has one port twice"),
        ("ports: {baseline: {http: 0, nccl: 4}}", "launch.ports.baseline.http: is out of range"),
        ("engines: {baseline: {args: --a}}", "launch.engines.baseline.args: is not a list"),
        (
            "engines: {baseline: {args: [true]}}",
            "launch.engines.baseline.args: holds something else than text",
        ),
        (
            "engines: {baseline: {env: {A: 1}}}",
            "launch.engines.baseline.env: holds no text for A (put quotes",
        ),
        (
            "engines: {baseline: {env: {A-B: x}}}",
            "launch.engines.baseline.env: holds something else than names",
        ),
        ("model: ''", "launch.model: is not a folder"),
    ],
)
def test_wrong_values(problems: Problems, text: str, expected: str) -> None:
    own = {"model": "/m", "tp": "8"}
    rest = "".join(f"  {key}: {value}\n" for key, value in own.items() if not text.startswith(f"{key}:"))
    (line,) = problems(f"launch:\n{rest}  {text}\n")
    assert line.partition(" ")[2].startswith(expected), line


def test_what_has_no_default_is_asked_for(problems: Problems) -> None:
    assert [line.split(" ", 1)[1] for line in problems("launch: {}\n")] == [
        "launch.model: is missing",
        "launch.tp: is missing",
    ]


def test_a_local_engine_is_started_where_the_router_looks_for_it(load: Load, problems: Problems) -> None:
    moved = "ports: {baseline: {http: 31000, nccl: 31001}}"
    (line,) = problems(f"launch: {{model: /m, tp: 8, {moved}}}\n", pair=LOCAL)
    assert "launch.ports.baseline.http: is not the port of pairs[0].baseline.url, where the router" in line
    assert line.endswith("allowed: 30002")
    launch(load, moved)  # engines elsewhere, as in a container, are the operator's affair


def test_every_section_refuses_unknown_keys(load: Load) -> None:
    def sections(value: object) -> list[BaseModel]:
        if not isinstance(value, BaseModel):
            return []
        return [value, *(section for _, inner in value for section in sections(inner))]

    found = sections(launch(load, ""))
    assert len(found) == 13
    for section in found:
        assert section.model_config["extra"] == "forbid"
        assert section.model_config["frozen"] is True
