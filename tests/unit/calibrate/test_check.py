"""From bad data no thresholds follow: failures counted as results make an overloaded engine look fast."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from router.calibrate.check import refusals, warnings
from router.calibrate.measured import Measured, Routed
from router.calibrate.policy_block import policy_block
from router.calibrate.result import assess
from router.calibrate.verdict import Kind
from router.core.words import Path, Placement
from tests.support.sweeps import SEEN_BASELINE, SEEN_EAGLE, TOGETHER
from tests.unit.calibrate.build import alone, both, measured, spoiled, table

GOOD = table(SEEN_BASELINE, SEEN_EAGLE, TOGETHER)
SPECULATIVE_CELL = len(SEEN_BASELINE)


def draw() -> float:
    raise AssertionError("refused data are not resampled")


def only(keep: dict[Path, set[int]]) -> Measured:
    return replace(GOOD, alone=tuple(cell for cell in GOOD.alone if cell.concurrency in keep[cell.path]))


def test_good_data_are_not_refused() -> None:
    assert refusals(GOOD) == ()
    assert warnings(GOOD) == ()


def test_a_cell_with_failures_is_named_with_its_rate_and_their_reasons() -> None:
    (reason,) = refusals(spoiled(GOOD, 4, success_rate=0.71, failures={"cut": 3, "error event": 12}))
    assert reason.startswith(
        "baseline at 16 (chat): only 71 % of the requests succeeded (error event: 12, cut: 3)"
    )


@pytest.mark.parametrize(("rate", "refused"), [(1.0, 0), (0.99, 0), (0.9899, 1), (math.nan, 1)])
def test_one_percent_of_failures_is_the_most(rate: float, refused: int) -> None:
    assert len(refusals(spoiled(GOOD, 0, success_rate=rate))) == refused


@pytest.mark.parametrize(
    ("place", "changes", "expected"),
    [
        (0, {"problems": ("client at its limit",)}, "baseline at 1 .* must not be used, client at its limit"),
        (SPECULATIVE_CELL, {"accept_length": None}, "speculative at 1 .* reported no accept length"),
        (SPECULATIVE_CELL, {"accept_length": 0.9}, "an accept length of 0.9 cannot be"),
        (SPECULATIVE_CELL, {"accept_length": math.nan}, "an accept length of nan cannot be"),
        (0, {"tokens_per_second": 0.0}, "0 tokens per second at 1 requests are no measurement"),
        (0, {"tokens_per_second": math.nan}, "nan tokens per second"),
        (0, {"output_tokens": math.nan}, "its token counts, its spread or its drain are missing"),
        (0, {"drain_seconds": math.nan}, "its token counts, its spread or its drain are missing"),
        (0, {"spread": -0.1}, "its token counts, its spread or its drain are missing"),
    ],
)
def test_a_cell_that_must_not_be_used_is_named(place: int, changes: dict[str, object], expected: str) -> None:
    (reason,) = refusals(spoiled(GOOD, place, **changes))
    assert re.search(expected, reason)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"problems": ("another client used the engine",)}, "another client used the engine"),
        ({"baseline_rate": 0.0}, "0 and 1721 tokens per second"),
        ({"speculative_rate": math.nan}, "1237 and nan tokens"),
        ({"accept_length": 0.5}, "an accept length of 0.5"),
        ({"drain_seconds": math.nan}, "a drain of nan seconds cannot be"),
        ({"baseline": 0}, "no measurement of two working engines"),
    ],
)
def test_a_mixed_cell_that_must_not_be_used_is_named(changes: dict[str, object], expected: str) -> None:
    wrong = replace(both(TOGETHER[1]), **changes)  # type: ignore[arg-type]
    (reason,) = refusals(replace(GOOD, both=(wrong,)))
    assert reason.startswith("both at once, ")
    assert expected in reason


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"prefill_seconds_per_token": {Path.BASELINE: -1e-5}},
            "baseline: -1e-05 seconds for a prompt token",
        ),
        (
            {"prefill_seconds_per_token": {Path.SPECULATIVE: math.nan}},
            "speculative: nan seconds for a prompt",
        ),
        ({"max_running_requests": {Path.BASELINE: 0}}, "baseline: 0 running requests at most cannot be"),
    ],
)
def test_what_no_calibration_file_may_hold_is_refused(changes: dict[str, object], expected: str) -> None:
    """Else the file would be written, and refused by the router that is to use it."""
    (reason,) = refusals(replace(GOOD, **changes))  # type: ignore[arg-type]
    assert reason.startswith(expected)


def test_what_was_not_looked_at_is_no_reason() -> None:
    assert refusals(replace(GOOD, prefill_seconds_per_token={}, max_running_requests={})) == ()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            only({Path.BASELINE: {1, 2, 4}, Path.SPECULATIVE: set()}),
            ["the speculative engine was not measured"],
        ),
        (
            only({Path.BASELINE: {1, 2, 4}, Path.SPECULATIVE: {1, 2, 8}}),
            ["at too few concurrencies in common (1, 2)"],
        ),
        (only({Path.BASELINE: {1}, Path.SPECULATIVE: {2}}), ["at too few concurrencies in common (none)"]),
        (
            only({path: {4, 8, 16} for path in Path}),
            ["from 4 requests in flight on (4, 8, 16)"],
        ),
        (replace(GOOD, key=replace(GOOD.key, placement=Placement.SINGLE)), ["the placement is single"]),
        (replace(GOOD, key=replace(GOOD.key, placement=None)), ["the placement is not known"]),
    ],
)
def test_a_sweep_that_covers_too_little_is_refused(found: Measured, expected: list[str]) -> None:
    reasons = refusals(found)
    assert len(reasons) == len(expected)
    for reason, part in zip(reasons, expected, strict=True):
        assert part in reason


def test_an_engine_that_fails_under_load_gets_no_thresholds() -> None:
    """Every kind of failure in one third of the answers, from 64 requests on: the rates look plausible."""
    failures = {"error event": 9, "no [DONE]": 4, "empty": 3, "503": 5, "cut": 2, "not an answer": 1}
    bad = GOOD
    for place, cell in enumerate(GOOD.alone):
        if cell.concurrency >= 64:
            bad = spoiled(bad, place, success_rate=0.67, failures=failures)
    result = assess(bad, draw)
    assert result.verdict.kind is Kind.REFUSED
    assert not result.verdict.usable
    assert len(result.verdict.reasons) == 4
    assert "for 4 reasons" in result.verdict.sentence
    assert policy_block(result, "calibration.yaml") is None
    assert "for one reason" in assess(spoiled(GOOD, 0, success_rate=0.0), draw).verdict.sentence


def test_what_the_router_did_wrong_and_groups_that_are_not_everywhere_are_warned_of() -> None:
    """Neither forbids thresholds: the first does not enter them, the second only bends a curve."""
    routed = (
        Routed(8, "chat", 2000.0, 0.9, 0.5, ()),
        Routed(16, "chat", 2000.0, 1.0, 0.5, ("client at its limit",)),
    )
    extra = alone(Path.SPECULATIVE, 8, 2500.0, 1.9, group="code")
    found = replace(measured([*GOOD.alone, extra]), routed=routed)
    assert refusals(found) == ()
    first, second, third = warnings(found)
    assert first == "through the router at 8 (chat): only 90 % of the requests succeeded"
    assert second == "through the router at 16 (chat): client at its limit"
    assert third.startswith("group code was not measured on speculative at 1, speculative at 2, ")
