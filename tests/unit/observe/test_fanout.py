"""Several observers, one of which is broken."""

from __future__ import annotations

import structlog
from structlog.testing import capture_logs

from router.core.events import Decision
from router.core.failure import Kind
from router.core.policy import Switch
from router.core.words import DecisionReason, Path, Rejection, SwitchReason
from router.observe.fanout import Fanout
from tests.support import RecordingObserver
from tests.unit.observe.build import record


class Broken(RecordingObserver):
    """Raises at everything."""

    def __getattribute__(self, name: str) -> object:
        if name.startswith("on_"):
            raise RuntimeError("broken observer")
        return super().__getattribute__(name)


def test_a_broken_observer_harms_nobody_and_is_logged_once() -> None:
    first, last = RecordingObserver(), RecordingObserver()
    with capture_logs() as lines:
        fanout = Fanout([first, Broken(), last], structlog.get_logger())
        decision = Decision(Path.BASELINE, DecisionReason.POLICY)
        switch = Switch(1.0, Path.SPECULATIVE, Path.BASELINE, 8, 2.0, SwitchReason.HIGH)
        fanout.on_decision(decision)
        fanout.on_retry(Path.BASELINE, Path.SPECULATIVE, Kind.RESET)
        fanout.on_switch(switch)
        fanout.on_rejected(Rejection.DRAIN)
        fanout.on_finished(record())
    for observer in (first, last):
        assert observer.decisions == [decision]
        assert observer.retries == [(Path.BASELINE, Path.SPECULATIVE, Kind.RESET)]
        assert observer.switches == [switch]
        assert observer.rejections == [Rejection.DRAIN]
        assert observer.finished == [record()]
    assert [(line["log_level"], line["observer"]) for line in lines] == [("error", "Broken")]
