"""What happened, as frozen records handed to observers (metrics, logs, the demo's screen)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from router.core.failure import Kind
from router.core.policy import Switch
from router.core.words import DecisionReason, Outcome, Path, Rejection


@dataclass(frozen=True, slots=True)
class Decision:
    """Which path a request takes, and why. `trial` marks a half-open breaker's one request."""

    path: Path
    reason: DecisionReason
    trial: bool = False


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request from its arrival to its end. All times are seconds.

    Attributes:
        request_id: the id in `x-request-id`.
        route: the allow-listed route, never a stranger's path.
        path: the path that served it last; None if no engine was asked.
        reason: the decision's reason; None likewise.
        outcome: how its lease ended, or `rejected` where none was opened.
        kind: the failure, if any.
        status: the HTTP status sent to the client; None if the client left before one was sent.
        queued_for: time in the router's queue.
        first_byte: arrival to the engine's first event or body byte.
        duration: arrival to end.
        stream_time: first event to last.
        prompt_tokens, completion_tokens: from the engine's usage; None where it said nothing.
        events: events of the answer that carried content, an estimate of steps.
    """

    request_id: str
    route: str
    path: Path | None
    reason: DecisionReason | None
    outcome: Outcome
    kind: Kind | None
    status: int | None
    queued_for: float
    first_byte: float | None
    duration: float
    stream_time: float
    prompt_tokens: int | None
    completion_tokens: int | None
    events: int
    streamed: bool


class Observer(Protocol):
    """Gets told. Must be quick and must not raise."""

    def on_decision(self, decision: Decision) -> None:
        """A request was given a path."""

    def on_retry(self, origin: Path, target: Path, kind: Kind) -> None:
        """A request moves to another path, or to a fresh connection when both are the same."""

    def on_switch(self, switch: Switch) -> None:
        """The active path changed."""

    def on_rejected(self, reason: Rejection) -> None:
        """The router refused a request by itself."""

    def on_finished(self, record: RequestRecord) -> None:
        """A request ended."""
