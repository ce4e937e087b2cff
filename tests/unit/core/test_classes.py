"""Which requests only one path can serve."""

from __future__ import annotations

from typing import Any

import pytest

from router.core.classes import BATCH_LOOK, Rule, Rules, When, Wish, previous_response, wants_session
from router.core.words import DecisionReason, Path

RULES = Rules()


def wish(path: Path, field: str) -> Wish:
    return Wish(path, DecisionReason.CLASS, only=True, field=field)


BASELINE_ONLY: list[tuple[dict[str, Any], str]] = [
    ({"min_p": 0.05}, "min_p"),
    ({"min_p": 1}, "min_p"),
    ({"min_p": True}, "min_p"),
    ({"min_p": "0.05"}, "min_p"),
    ({"custom_logit_processor": "x"}, "custom_logit_processor"),
    ({"custom_logit_processor": ""}, "custom_logit_processor"),
    ({"custom_logit_processor": [None, "x"]}, "custom_logit_processor"),
    ({"beam_width": 2}, "beam_width"),
    ({"return_sampling_mask": True}, "return_sampling_mask"),
    ({"return_sampling_mask": 1}, "return_sampling_mask"),
    ({"return_sampling_mask": "True"}, "return_sampling_mask"),
    ({"return_sampling_mask": [False, True]}, "return_sampling_mask"),
    ({"sampling_params": {"min_p": 0.1}}, "sampling_params.min_p"),
    ({"sampling_params": {"beam_width": 4}}, "sampling_params.beam_width"),
    ({"sampling_params": [{"min_p": 0}, {"min_p": 0.1}]}, "sampling_params.min_p"),
    ({"min_p": 0, "sampling_params": {"min_p": 0.1}}, "sampling_params.min_p"),
]


@pytest.mark.parametrize(("fields", "field"), BASELINE_ONLY, ids=[str(fields) for fields, _ in BASELINE_ONLY])
def test_what_speculation_ignores_or_refuses_goes_to_the_baseline(fields: dict[str, Any], field: str) -> None:
    assert RULES.wish(fields) == wish(Path.BASELINE, field)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0.5},
        {"min_p": 0},
        {"min_p": 0.0},
        {"min_p": None},
        {"min_p": "much"},
        {"min_p": "nan"},
        {"min_p": {"a": 1}},
        {"min_p": -1},
        {"custom_logit_processor": None},
        {"custom_logit_processor": [None, None]},
        {"beam_width": 1},
        {"beam_width": 10**400},
        {"return_sampling_mask": False},
        {"return_sampling_mask": "false"},
        {"return_sampling_mask": 0},
        {"return_sampling_mask": None},
        {"sampling_params": None},
        {"sampling_params": "min_p"},
        {"sampling_params": {"min_p": 0}},
        {"sampling_params": [None, 3, [{"min_p": 1}]]},
        {"sampling_params": [{}] * BATCH_LOOK + [{"min_p": 1}]},
        {"session_id": "a label"},
    ],
    ids=lambda fields: str(fields)[:60],
)
def test_what_both_paths_serve_alike_says_nothing(fields: dict[str, Any]) -> None:
    assert RULES.wish(fields) is None


def test_a_value_nested_as_deep_as_anybody_likes_is_only_looked_at() -> None:
    deep: Any = {"min_p": 1}
    for _ in range(100_000):
        deep = [deep]
    assert RULES.wish({"sampling_params": deep, "min_p": deep}) is None
    while isinstance(deep, list):
        (deep,) = deep  # freed level by level: the interpreter's own way recurses


def test_an_operators_rules_come_first() -> None:
    rules = Rules(
        [Rule("min_p", When.PRESENT, Path.SPECULATIVE), Rule("a.b", When.ABOVE, Path.BASELINE, 5.0)]
    )
    assert rules.wish({"min_p": 0.5}) == wish(Path.SPECULATIVE, "min_p")
    assert rules.wish({"a": {"b": 6}}) == wish(Path.BASELINE, "a.b")
    assert rules.wish({"a": {"b": 5}}) is None
    assert rules.wish({"a": 6}) is None
    assert {"a", "min_p", "sampling_params", "session_params", "previous_response_id"} <= rules.names


@pytest.mark.parametrize(
    ("value", "wanted"), [({"id": "s"}, True), ({"rid": None}, True), ({}, False), (None, False)]
)
def test_what_continues_a_session(value: object, wanted: bool) -> None:
    assert wants_session({"session_params": value}) is wanted
    assert wants_session({}) is False


def test_which_response_is_continued() -> None:
    assert previous_response({"previous_response_id": "resp_1"}) == "resp_1"
    assert previous_response({"previous_response_id": 5}) is None
    assert previous_response({}) is None
