"""The estimate of what mixing costs, and the time each path was active."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from router.core.load import EngineLoad
from router.core.words import Path
from router.observe.cost import MixedCost
from tests.support import FakeClock
from tests.unit.observe.build import watched


def test_tokens_are_lost_only_while_both_work_and_as_the_fractions_say() -> None:
    clock = FakeClock()
    pair = watched(clock)
    fractions = {Path.SPECULATIVE: 0.5, Path.BASELINE: 0.25}
    cost = MixedCost(pair, fractions.__getitem__)
    registry = CollectorRegistry()
    registry.register(cost)
    for path, rate in ((Path.SPECULATIVE, 100.0), (Path.BASELINE, 10.0)):
        pair.readings[path].record(EngineLoad(clock(), running=1, waiting=0, gen_throughput=rate))
    first = pair.pair.ledger.open()
    first.start(Path.SPECULATIVE)
    clock.advance(1.0)
    cost.tick()
    assert cost.tokens == 0.0
    pair.pair.ledger.open().start(Path.BASELINE)
    clock.advance(2.0)
    cost.tick()
    # 2 s of 100 × (1/0.5 − 1) + 10 × (1/0.25 − 1) tokens a second
    assert cost.tokens == pytest.approx(2.0 * (100.0 + 30.0))
    assert registry.get_sample_value("spec_router_mixed_lost_tokens_total", {"pair": "main"}) == cost.tokens
    cost.tick()
    assert cost.tokens == pytest.approx(260.0)


def test_an_engine_that_says_nothing_of_its_speed_is_left_out() -> None:
    clock = FakeClock()
    pair = watched(clock)
    cost = MixedCost(pair, lambda path: 0.5)
    for path in Path:
        pair.pair.ledger.open().start(path)
    clock.advance(2.0)
    cost.tick()
    assert cost.tokens == 0.0


def test_the_times_of_both_paths_add_up() -> None:
    clock = FakeClock()
    pair = watched(clock).pair
    clock.advance(3.0)
    for _ in range(20):
        pair.ledger.open()
    pair.evaluate()
    clock.advance(4.0)
    assert {path: pair.active_seconds(path) for path in Path} == {Path.SPECULATIVE: 3.0, Path.BASELINE: 4.0}
