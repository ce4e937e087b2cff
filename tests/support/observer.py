"""An observer that keeps what it was told."""

from __future__ import annotations

from router.core.events import Decision, RequestRecord
from router.core.failure import Kind
from router.core.policy import Switch
from router.core.words import Path, Rejection


class RecordingObserver:
    """Every call, in order, one list for each sort."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.retries: list[tuple[Path, Path, Kind]] = []
        self.switches: list[Switch] = []
        self.rejections: list[Rejection] = []
        self.finished: list[RequestRecord] = []

    def on_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def on_retry(self, origin: Path, target: Path, kind: Kind) -> None:
        self.retries.append((origin, target, kind))

    def on_switch(self, switch: Switch) -> None:
        self.switches.append(switch)

    def on_rejected(self, reason: Rejection) -> None:
        self.rejections.append(reason)

    def on_finished(self, record: RequestRecord) -> None:
        self.finished.append(record)
