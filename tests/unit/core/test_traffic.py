"""Prompts take time from decoding: what that does to gains, watermarks and what is learned."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from router.core.band import band, settles_at
from router.core.calibrated import CalibratedPolicy
from router.core.calibration import Calibration, Reach, Workload
from router.core.insight import insight
from router.core.learned import Learned, learn
from router.core.live import Live, PathLive
from router.core.pace import Engine, Watch
from router.core.policy import PolicyState, Snapshot
from router.core.price import Tariff, gain
from router.core.traffic import MOST_MIX, SMOOTHING, Traffic, told
from router.core.words import Path
from tests.support.sweeps import linear

SPECULATIVE, BASELINE = Path
BOTH = frozenset(Path)


def prefilling(
    speculative: float, baseline: float, crossover: float = 12.0, workload: Workload | None = None
) -> Calibration:
    """Engines that tie at `crossover`, with these seconds per prompt token."""
    plain = linear(crossover)
    return replace(
        plain,
        speculative=replace(plain.speculative, prefill_seconds_per_token=speculative),
        baseline=replace(plain.baseline, prefill_seconds_per_token=baseline),
        workload=workload or Workload(),
    )


def test_a_throughput_is_what_the_time_of_prompts_leaves_of_it() -> None:
    """100 tok/s and 5 prompt tokens of 0.4 ms for each: 10 ms + 2 ms a token."""
    engines = prefilling(0.0, 4e-4)
    alone = engines.tokens_per_second(BASELINE, 4)
    found = engines.tokens_per_second(BASELINE, 4, mix=5.0)
    assert 1 / found == pytest.approx(1 / alone + 5 * 4e-4)
    assert engines.tokens_per_second(SPECULATIVE, 4, 2.0, 5.0) == engines.tokens_per_second(
        SPECULATIVE, 4, 2.0
    )


def test_prompts_that_cost_both_the_same_leave_the_crossover_where_it_is_and_shrink_the_gains() -> None:
    engines = prefilling(1e-4, 1e-4)
    tariff = Tariff(engines, (0.7, 0.5))
    assert engines.crossover(2.0, 10.0).n == pytest.approx(engines.crossover(2.0).n, rel=0.02)
    for n in (2, 30):
        path = SPECULATIVE if n == 2 else BASELINE
        plain = gain(path, 2.0, tariff.hurdle(n, 2.0))
        assert 0 < gain(path, 2.0, tariff.hurdle(n, 2.0, 10.0)) < 0.95 * plain


def test_a_speculative_engine_with_the_slower_prefill_loses_earlier_where_prompts_are_long() -> None:
    engines = prefilling(1.4e-4, 1.2e-4)
    found = [engines.crossover(2.0, mix).n for mix in (0.0, 1.0, 4.0, 16.0)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.7 * found[0]
    assert engines.crossover(2.0, 1000.0).reach is Reach.NONE
    assert band(engines, 2.0, mix=16.0).high == pytest.approx(1.25 * found[-1])
    high = 15.0
    rate = engines.tokens_per_second(SPECULATIVE, high, 2.0, 4.0)
    settled = settles_at(engines, 2.0, high, 4.0)
    assert engines.tokens_per_second(BASELINE, settled, None, 4.0) == pytest.approx(rate, rel=1e-6)


@pytest.mark.parametrize("n", [1, 7, 40, 6.5])
def test_accept_length_over_hurdle_is_the_ratio_of_throughputs_at_any_mix(n: float) -> None:
    engines = prefilling(1.4e-4, 1.2e-4)
    tariff = Tariff(engines, (0.7, 0.5))
    for mix in (0.0, 8.0):
        one, other = (engines.tokens_per_second(path, n, 1.7, mix) for path in Path)
        assert 1.7 / math.exp(tariff.hurdle(n, 1.7, mix)) == pytest.approx(one / other)
        assert tariff.rate(SPECULATIVE, n, 1.7, mix) == pytest.approx(one)


def test_the_mix_is_that_of_both_engines_beyond_the_sweep_s() -> None:
    live = Live(
        PathLive(1, 0.0, 100.0, prefilled_per_second=300.0), PathLive(1, 0.0, 50.0, prefilled_per_second=0.0)
    )
    seen = Traffic().look(live, 1e9)
    assert seen.mix(Workload()) == pytest.approx(2.0)
    assert seen.mix(Workload(100.0, 200.0)) == pytest.approx(1.5)
    assert seen.mix(Workload(900.0, 200.0)) == 0.0
    assert Traffic().mix(Workload()) == Traffic(5.0, 0.0).mix(Workload()) == 0.0
    assert Traffic(1e9, 1e-9).mix(Workload()) == MOST_MIX


def test_it_is_smoothed() -> None:
    live = Live(PathLive(1, 0.0, 100.0, prefilled_per_second=400.0))
    seen = Traffic(0.0, 100.0).look(live, SMOOTHING)
    assert seen.prompts == pytest.approx(400.0 * (1 - math.exp(-1)))
    assert seen.outputs == pytest.approx(100.0)


@pytest.mark.parametrize("rate", [None, math.nan, math.inf, -1.0, 1e300])
def test_a_rate_that_is_none_says_nothing(rate: float | None) -> None:
    assert told(rate) == 0.0
    assert Traffic(3.0, 2.0).look(Live(PathLive(1, 0.0, rate, prefilled_per_second=rate)), 1e9).prompts == 0.0


@pytest.mark.parametrize(
    ("prompts", "sweep", "factor"),
    [
        (0.0, Workload(), 1 / 0.7),
        (3000.0, Workload(), 1.0),
        (3000.0, Workload(400.0, 20.0), 1.0 / 0.7 * 0.9),
        (8000.0, Workload(), None),
    ],
    ids=["slow", "prompts", "prompts of the sweep", "prompts only"],
)
def test_an_engine_that_computes_prompts_is_not_taken_for_a_slow_one(
    prompts: float, sweep: Workload, factor: float | None
) -> None:
    """At 0.7 of the calibrated rate: slow, unless 3000 tokens of 0.1 ms a second have had the rest.

    Where the sweep computed 20 prompt tokens for each output token, only the 1000 a second beyond count.
    """
    engines = prefilling(1e-4, 1e-4, workload=sweep)
    rate = 0.7 * engines.tokens_per_second(BASELINE, 4)
    sweep_prompts = rate * sweep.mix
    given = sweep_prompts + 1000.0 if sweep.mix else prompts
    live = Live(baseline=PathLive(4, 99.0, rate, prefilled_per_second=given))
    learned = Learned(baseline=Engine(watch=Watch(0.0, 4.0, 4)), looked_at=100.0)
    scale = learn(learned, live, 100.0, engines, settled_at=0.0, excess=0).baseline.scale
    assert scale.samples == (factor is not None)
    if factor is not None:
        assert scale.target == pytest.approx(0.1 * max(-0.3, min(0.3, math.log(factor))))


def test_watermarks_follow_the_prompts_and_break_even_says_so() -> None:
    engines = prefilling(1.4e-4, 1.2e-4)
    policy = CalibratedPolicy(engines)
    state, now = PolicyState(), 1000.0
    found = []
    for mix in (0.0, 16.0):
        rate = engines.tokens_per_second(SPECULATIVE, 4, 2.0, mix)
        for _ in range(200):
            now += 1.0
            live = Live(PathLive(4, now, rate, 2.0, prefilled_per_second=mix * rate))
            state, _ = policy.step(state, Snapshot(now, 4, BOTH, live=live))
        known = insight(policy, state, 4, now)
        assert known is not None
        found.append(known)
    plain, long = found
    assert long.scales[SPECULATIVE] == pytest.approx(1.0, abs=0.01)
    assert long.crossover == pytest.approx(engines.crossover(2.0, 16.0).n, rel=0.05)
    assert long.crossover < 0.7 * plain.crossover
    assert plain.break_even == pytest.approx(engines.break_even_at(4))
    assert long.break_even > 1.02 * plain.break_even
