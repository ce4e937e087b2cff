"""Changes of an engine's standing in the log."""

from __future__ import annotations

import structlog
from structlog.testing import capture_logs

from router.core.failure import Effect
from router.core.health import Probe
from router.core.words import Path
from router.observe.watch import HealthWatch
from tests.support import FakeClock
from tests.unit.observe.build import watched


def test_each_change_is_told_once() -> None:
    clock = FakeClock()
    pair = watched(clock, Path.BASELINE).pair
    engine = pair.engines[Path.BASELINE]
    told: list[tuple[str, str]] = []

    def check() -> None:
        with capture_logs() as lines:
            watch.check(clock())
            watch.check(clock())
        told.extend((line["log_level"], line["event"]) for line in lines)
        assert all(line["pair"] == "main" and line["path"] == "baseline" for line in lines)

    with capture_logs():
        watch = HealthWatch(pair, structlog.get_logger())
    check()
    engine.record_ready(Probe.OK, clock())
    check()
    engine.record_ready(Probe.NOT_READY, clock())
    check()
    for _ in range(2):
        engine.record_ready(Probe.OK, clock())
    check()
    for _ in range(5):
        engine.record_result(Effect.FAILURE, clock())
    check()
    clock.advance(10.0)
    check()
    engine.record_result(Effect.FAILURE, clock())
    check()
    clock.advance(10.0)
    check()
    for _ in range(2):
        engine.record_result(Effect.SUCCESS, clock())
    check()
    assert told == [
        ("info", "engine up"),
        ("warning", "engine doubtful"),
        ("info", "engine up"),
        ("warning", "engine down"),
        ("info", "engine on trial"),
        ("warning", "engine down"),
        ("info", "engine on trial"),
        ("info", "engine up"),
    ]


def test_an_engine_that_was_never_there_is_told_too() -> None:
    clock = FakeClock()
    pair = watched(clock, Path.BASELINE).pair
    with capture_logs() as lines:
        watch = HealthWatch(pair, structlog.get_logger())
        for _ in range(3):
            pair.engines[Path.BASELINE].record_ready(Probe.REFUSED, clock())
            watch.check(clock())
    assert [line["event"] for line in lines] == ["engine down"]
