"""Gauges read at scrape time."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from router.core.degraded import Harm
from router.core.failure import Effect
from router.core.health import Probe
from router.core.load import EngineLoad
from router.core.words import Outcome, Path, Sign
from router.observe.state import StateCollector, Watched
from tests.support import FakeClock
from tests.unit.observe.build import Series, scrape, watched


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def view(clock: FakeClock) -> Watched:
    return watched(clock)


def _scrape(view: Watched) -> Series:
    registry = CollectorRegistry()
    registry.register(StateCollector(view, "1.2.3"))
    return scrape(registry)


def test_what_is_not_known_is_left_out(view: Watched) -> None:
    assert _scrape(view) == {
        "build_info{version=1.2.3}": 1,
        "in_flight{path=speculative}": 0,
        "in_flight{path=baseline}": 0,
        "in_flight{path=queue}": 0,
        "active_path{path=speculative}": 1,
        "active_path{path=baseline}": 0,
        "active_path_seconds_total{path=speculative}": 0,
        "active_path_seconds_total{path=baseline}": 0,
        "degraded{path=speculative,reason=accept_length}": 0,
        "degraded{path=speculative,reason=prefix_cache}": 0,
        "degraded{path=speculative,reason=slow}": 0,
        "mixed_seconds_total": 0,
        "wiring_problems": 0,
        "threshold{bound=high}": 8,
        "threshold{bound=low}": 3,
        "breaker_state{path=speculative}": 0,
        "breaker_state{path=baseline}": 0,
        "engine_up{path=speculative}": 0,
        "engine_up{path=baseline}": 0,
    }


def test_leases_are_told_by_path_and_mixed_time_goes_on_between_scrapes(
    view: Watched, clock: FakeClock
) -> None:
    ledger = view.pair.ledger
    leases = [ledger.open() for _ in range(4)]
    leases[0].start(Path.SPECULATIVE)
    leases[1].start(Path.BASELINE)
    leases[2].start(Path.BASELINE)
    clock.advance(1.5)
    found = _scrape(view)
    assert found["in_flight{path=speculative}"] == 1
    assert found["in_flight{path=baseline}"] == 2
    assert found["in_flight{path=queue}"] == 1
    assert found["mixed_seconds_total"] == 1.5
    clock.advance(1.0)
    assert _scrape(view)["mixed_seconds_total"] == 2.5
    for lease in leases:
        lease.close(Outcome.OK)
    found = _scrape(view)
    assert [value for name, value in found.items() if name.startswith("in_flight{")] == [0, 0, 0]


def test_the_active_path_and_the_breaker_are_those_of_the_pair(view: Watched, clock: FakeClock) -> None:
    for _ in range(5):
        view.pair.engines[Path.SPECULATIVE].record_result(Effect.FAILURE, clock())
    view.pair.engines[Path.BASELINE].record_ready(Probe.OK, clock())
    view.pair.evaluate()
    found = _scrape(view)
    assert found["breaker_state{path=speculative}"] == 1
    assert found["active_path{path=speculative}"] == 0
    assert found["active_path{path=baseline}"] == 1
    assert found["engine_up{path=baseline}"] == 1
    clock.advance(10.0)
    assert _scrape(view)["breaker_state{path=speculative}"] == 2


def test_harm_is_told_with_its_reason_and_with_no_other(view: Watched) -> None:
    view.pair.harm = Harm(until=60.0, why=Sign.PREFIX_CACHE)
    assert _degraded(view) == {"accept_length": 0, "prefix_cache": 1, "slow": 0}
    # `why` is that of the last time: it says nothing once the hold is over.
    view.pair.harm = Harm(until=None, why=Sign.PREFIX_CACHE)
    assert _degraded(view) == {"accept_length": 0, "prefix_cache": 0, "slow": 0}


def _degraded(view: Watched) -> Series:
    start = "degraded{path=speculative,reason="
    found = _scrape(view)
    return {
        name.removeprefix(start).rstrip("}"): value for name, value in found.items() if name.startswith(start)
    }


def test_what_the_engines_say_and_how_far_our_count_is_from_theirs(view: Watched, clock: FakeClock) -> None:
    view.pair.ledger.open().start(Path.SPECULATIVE)
    readings = view.readings[Path.SPECULATIVE]
    readings.record(EngineLoad(clock(), running=3, waiting=2, token_usage=0.25, generation_tokens=100.0))
    clock.advance(2.0)
    load = EngineLoad(clock(), 3, 2, 0.25, generation_tokens=300.0, accept_length=2.25)
    readings.record(load)
    found = _scrape(view)
    assert found["engine_running_requests{path=speculative}"] == 3
    assert found["engine_queued_requests{path=speculative}"] == 2
    assert found["engine_token_usage{path=speculative}"] == 0.25
    assert found["throughput_tokens_per_second{path=speculative}"] == 100
    assert found["accept_length"] == 2.25
    assert found["in_flight_drift{path=speculative}"] == -4
    assert not [name for name in found if name.startswith("engine_running") and "baseline" in name]


def test_old_readings_are_not_told(view: Watched, clock: FakeClock) -> None:
    view.readings[Path.BASELINE].record(EngineLoad(clock(), running=3, waiting=0, gen_throughput=50.0))
    assert _scrape(view)["throughput_tokens_per_second{path=baseline}"] == 50
    clock.advance(10.5)
    found = _scrape(view)
    assert not [name for name in found if "engine_running" in name or "throughput" in name or "drift" in name]


def test_half_a_count_makes_no_drift(view: Watched, clock: FakeClock) -> None:
    view.readings[Path.BASELINE].record(EngineLoad(clock(), running=3))
    found = _scrape(view)
    assert found["engine_running_requests{path=baseline}"] == 3
    assert not [name for name in found if "drift" in name or "queued_requests" in name]


def test_a_pair_with_one_engine(clock: FakeClock) -> None:
    found = _scrape(watched(clock, Path.SPECULATIVE))
    assert found["active_path{path=speculative}"] == 1
    assert not [name for name in found if "baseline" in name or "threshold" in name or "degraded" in name]
