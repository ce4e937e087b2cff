"""The verdict on engines of which it is known how far speculation pays."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from router.calibrate.measured import Measured
from router.calibrate.result import Result, assess
from router.calibrate.verdict import Kind, too_wide
from router.core.bootstrap import Interval
from router.core.calibration import Crossover, Reach
from router.core.words import Path, Placement
from tests.support.sweeps import SEEN_BASELINE, SEEN_EAGLE, TOGETHER, UNSEEN_BASELINE, UNSEEN_EAGLE, linear
from tests.unit.calibrate.build import KEY, alone, measured, profile, swept, table

STRONG = (1, 4, 10, 30, 64, 128, 256)


def judged(found: Measured, resamples: int = 100) -> Result:
    return assess(found, Random(1).random, resamples)


def said(result: Result) -> str:
    return "\n".join(result.verdict.reasons)


def test_engines_on_which_speculation_never_pays_get_the_baseline_alone() -> None:
    """The parallel benchmark of a large model: 77.5 against 92.6 tok/s at 1, 340.9 against 772.1 at 250."""
    found = judged(swept(profile("seed"), (1, 30, 70, 250), noise=0.02, repeats=2))
    assert found.verdict.kind is Kind.NEVER
    assert found.verdict.usable
    assert found.verdict.sentence.startswith(
        "Speculation pays nowhere at accept length 2.50: use the baseline alone."
    )
    assert found.derived is not None
    assert [round(100 * load.gain) for load in found.derived.loads] == pytest.approx(
        [-16, -58, -57, -56], abs=3
    )
    assert "it depends on the accept length (here 2.50): at " in said(found)


def test_with_gpus_of_their_own_a_second_baseline_is_better_than_speculation_that_never_pays() -> None:
    seed = swept(profile("seed"), (1, 30, 70, 250))
    found = judged(replace(seed, key=replace(KEY, placement=Placement.SEPARATE)))
    assert "its GPUs would do more with a second baseline" in found.verdict.sentence


def test_a_strong_draft_has_its_crossover_within_the_interval() -> None:
    """The profile ties at 10 requests by construction; of 10 intervals of 90 % one or two may miss it."""
    inside = 0
    for seed in range(10):
        found = judged(swept(profile("strong"), STRONG, noise=0.03, repeats=3, seed=seed), 60)
        assert found.verdict.kind is Kind.PART
        assert found.derived is not None
        at = found.derived.at
        assert at.crossover.n == pytest.approx(10.0, rel=0.15)
        assert at.interval.high < 1.5 * at.interval.low
        assert f"up to about {at.crossover.n:.3g} requests in flight" in found.verdict.sentence
        inside += at.interval.low <= 10.0 <= at.interval.high
    assert inside >= 8


def test_a_draft_that_wins_at_every_load_is_said_to_win_as_far_as_was_measured() -> None:
    found = judged(swept(profile("strong"), STRONG, noise=0.02, repeats=2, accept_length=8.0))
    assert found.verdict.kind is Kind.ALWAYS
    assert "at every load that was measured, up to 256 requests in flight" in found.verdict.sentence


def test_the_h200_table_with_a_crossover_between_8_and_16_has_it_there() -> None:
    found = judged(table(SEEN_BASELINE, SEEN_EAGLE, TOGETHER), 400)
    assert found.verdict.kind is Kind.PART
    assert found.derived is not None
    assert 8 < found.derived.at.crossover.n < 16
    assert 4 < found.derived.at.interval.low < 8
    assert 12 < found.derived.at.interval.high < 17
    assert "between the measured loads 8 and 16 the step times are taken to be straight lines" in said(found)
    assert "a visit at 10 would tell" in said(found)
    assert "from 2.7 on at every load that was measured" in said(found)


def test_engines_that_tie_over_a_wide_range_are_to_be_measured_longer() -> None:
    """The other table: within 5 % of each other up to 32 requests, and two cells are a third off."""
    found = judged(table(UNSEEN_BASELINE, UNSEEN_EAGLE, TOGETHER))
    assert found.verdict.kind is Kind.UNSURE
    assert not found.verdict.usable
    assert found.verdict.sentence.endswith("Measure longer.")
    assert "requests in flight the engines differ by " in said(found)
    assert "more repeats, spread over time" in said(found)
    assert "the noisiest cells are speculative at 2 (37 % off), speculative at 4 (34 % off)" in said(found)
    assert "separate ranges" in said(found)
    assert "a visit at" not in said(found)


def test_windows_that_are_too_short_are_told_from_engines_that_change_between_visits() -> None:
    """Two engines that tie at 12 and differ little; all noise is within the windows."""
    found = judged(swept(linear(12.0, limit=64), (1, 2, 4, 8, 16, 32, 64), noise=0.3, repeats=2, seed=3))
    assert found.verdict.kind is Kind.UNSURE
    assert "longer windows, for a throughput varies by 30.0 % within its window" in said(found)


@pytest.mark.parametrize(
    ("n", "low", "high", "expected"),
    [
        (10.0, 5.1, 19.0, False),
        (10.0, 4.9, 12.0, True),
        (10.0, 9.0, 20.1, True),
        (1.5, 0.0, 2.9, False),
        (0.0, 0.0, 1.9, False),
        (0.0, 0.0, 2.1, True),
        (100.0, 70.0, 128.0, False),
    ],
)
def test_an_interval_is_too_wide_beyond_half_or_twice_the_crossover(
    n: float, low: float, high: float, expected: bool
) -> None:
    """Below one request there is nothing to decide, so `nowhere` and 1.5 are near to each other."""
    assert too_wide(Crossover(Reach.PART, n, ()), Interval(low, high, 0.0, 0.0), 128) is expected


def limited(most: int, accept_length: float = 2.0) -> Result:
    found = swept(linear(12.0, limit=64), (1, 2, 4, 8, 16, 32, 64), accept_length=accept_length)
    return judged(replace(found, max_running_requests={Path.SPECULATIVE: most, Path.BASELINE: 64}), 20)


def test_an_engine_that_queues_below_the_high_watermark_is_named() -> None:
    """The crossover is 12, the watermark 15: with 10 at a time load would queue at 11 instead of leaving."""
    text = said(limited(10))
    assert (
        "the speculative engine runs 10 requests at a time, and the high watermark is 15: it would queue"
        in text
    )
    assert "--max-running-requests 15 or more and measure again; until then `high` is 10" in text
    assert "measured at up to 64 requests though it runs 10 at a time" in text
    assert "watermark" not in said(limited(64))


def test_an_engine_that_queues_where_speculation_always_pays_is_named() -> None:
    assert "runs 32 requests at a time; above that it queues, and `high` is 32" in said(limited(32, 20.0))


def test_groups_are_judged_each_at_its_accept_length_and_by_its_own_cells() -> None:
    """Two groups of one engine differ in the accept length alone; a third has other step times."""
    engines = linear(12.0, limit=64)
    sizes = (1, 2, 4, 8, 16, 32, 64)
    easy = swept(engines, sizes, accept_length=2.4).alone
    hard = [replace(cell, group="hard") for cell in swept(engines, sizes, accept_length=1.6).alone]
    text = said(judged(measured([*easy, *hard]), 20))
    assert "group chat, accept length 2.40: it seems to pay up to" in text
    assert "group hard, accept length 1.60: it seems to pay up to" in text
    assert "do not take one group for the other" not in text
    slow = [
        replace(
            cell, group="long", tokens_per_second=cell.tokens_per_second / (2 if cell.accept_length else 1)
        )
        for cell in easy
    ]
    assert "do not take one group for the other" in said(judged(measured([*easy, *slow]), 20))


def test_a_group_that_only_one_engine_saw_is_judged_by_the_pooled_curves() -> None:
    lone = [alone(Path.SPECULATIVE, n, 100.0 * n, 1.9, group="lone") for n in (1, 2, 4)]
    found = judged(measured([*table(SEEN_BASELINE, SEEN_EAGLE).alone, *lone]), 20)
    assert found.derived is not None
    assert [(group.name, group.own is None) for group in found.derived.groups] == [
        ("chat", False),
        ("lone", True),
    ]


def test_a_group_without_speculation_has_no_accept_length_and_no_crossover() -> None:
    lone = [alone(Path.BASELINE, n, 300.0 * n, group="lone") for n in (1, 2, 4)]
    found = judged(measured([*table(SEEN_BASELINE, SEEN_EAGLE).alone, *lone]), 20)
    assert found.derived is not None
    assert [group.name for group in found.derived.groups] == ["chat"]
