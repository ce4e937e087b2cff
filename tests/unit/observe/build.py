"""Pairs and records for the tests of what observes them."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from router.core.events import RequestRecord
from router.core.health import BreakerRules, EngineHealth, HealthRules
from router.core.ledger import Ledger
from router.core.load import Readings
from router.core.pair import Pair
from router.core.policy import FixedPolicy, Policy, ThresholdPolicy
from router.core.words import DecisionReason, Outcome, Path, Placement
from router.observe.exposition import render
from router.observe.state import Watched
from tests.support import FakeClock, RecordingObserver

GOOD = RequestRecord(
    request_id="r-1",
    route="/v1/chat/completions",
    path=Path.BASELINE,
    reason=DecisionReason.POLICY,
    outcome=Outcome.OK,
    kind=None,
    status=200,
    queued_for=0.0,
    first_byte=0.25,
    duration=2.25,
    stream_time=2.0,
    prompt_tokens=10,
    completion_tokens=5,
    events=5,
    streamed=True,
)


def record(**changes: object) -> RequestRecord:
    """An ordinary streamed request, but for `changes`."""
    return replace(GOOD, **changes)  # type: ignore[arg-type]


def watched(clock: FakeClock, *paths: Path) -> Watched:
    """A pair with engines for `paths` (default: both), idle."""
    paths = paths or tuple(Path)
    engines = {path: EngineHealth(BreakerRules(5, 2, 10.0), HealthRules(3, 2)) for path in paths}
    policy: Policy = ThresholdPolicy(8, 3, 10.0, 2.0)
    placement = Placement.SHARED
    if len(paths) == 1:
        policy, placement = FixedPolicy(paths[0], "single"), Placement.SINGLE
    pair = Pair("main", placement, engines, policy, Ledger(clock), clock, RecordingObserver())
    return Watched(pair, {path: Readings(clock) for path in paths}, clock)


Series = dict[str, float]


def scrape(registry: CollectorRegistry) -> Series:
    """Samples as `name{label="value",...}` without the prefix and the pair."""
    body, _ = render(registry, "")
    found: Series = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()) if k != "pair")
            name = sample.name.removeprefix("spec_router_")
            found[f"{name}{{{labels}}}" if labels else name] = sample.value
    return found
