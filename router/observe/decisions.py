"""Decisions kept for whoever asks later: switches with all their inputs, and a sample of requests.

A switch is recorded with the policy's memory before it, what the policy saw, and what it made of that.
Since policies are pure, the same policy given the same two things makes the same switch: that is how
`spec-router explain` checks a log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TextIO

import msgspec

from router.core.events import Decision, RequestRecord
from router.core.failure import Kind
from router.core.ledger import Clock
from router.core.policy import Policy, PolicyState, Snapshot, Switch
from router.core.words import Path, Rejection

# Requests kept, and the least seconds between two that are: under load a sample, else every one.
SAMPLE = 200
SAMPLE_EVERY = 0.1
SWITCHES = 100


class SwitchRecord(msgspec.Struct, frozen=True):
    """One switch and everything it was made from. `wall` is seconds since the epoch."""

    wall: float
    pair: str
    rules: dict[str, Any]
    before: PolicyState
    seen: Snapshot
    switch: Switch


class DecisionLog:
    """An `Observer` that also hears of switches with their inputs.

    Args:
        pair: name of the pair.
        rules: what describes the policy in force, so that it can be built again.
        clock: monotonic seconds.
        wall: seconds since the epoch.
        out: where switch records are appended, one JSON object a line; None: nowhere.
    """

    def __init__(
        self,
        pair: str,
        rules: Callable[[], dict[str, Any]],
        clock: Clock,
        wall: Callable[[], float],
        out: TextIO | None = None,
    ) -> None:
        self._pair = pair
        self._rules = rules
        self._clock = clock
        self._wall = wall
        self._out = out
        self._switches: deque[SwitchRecord] = deque(maxlen=SWITCHES)
        self._requests: deque[RequestRecord] = deque(maxlen=SAMPLE)
        self._sampled_at = 0.0
        self._encoder = msgspec.json.Encoder(order="deterministic")

    def record(self, before: PolicyState, seen: Snapshot, switch: Switch) -> None:
        """A switch was made of `before` and `seen`."""
        record = SwitchRecord(self._wall(), self._pair, self._rules(), before, seen, switch)
        self._switches.append(record)
        if self._out is not None:
            self._out.write(self._encoder.encode(record).decode() + "\n")
            self._out.flush()

    def close(self) -> None:
        """The router has stopped; nothing more is appended."""
        if self._out is not None:
            self._out.close()
            self._out = None

    def render(self) -> bytes:
        """Everything kept, as JSON; the newest last."""
        return self._encoder.encode({"switches": list(self._switches), "requests": list(self._requests)})

    def on_finished(self, record: RequestRecord) -> None:
        """See `Observer`."""
        now = self._clock()
        if now - self._sampled_at >= SAMPLE_EVERY:
            self._sampled_at = now
            self._requests.append(record)

    def on_decision(self, decision: Decision) -> None:
        """Kept with the request."""

    def on_retry(self, origin: Path, target: Path, kind: Kind) -> None:
        """Kept with the request."""

    def on_switch(self, switch: Switch) -> None:
        """Kept with its inputs, by `record`."""

    def on_rejected(self, reason: Rejection) -> None:
        """Kept with the request."""


def first_difference(policy: Policy, record: SwitchRecord) -> str | None:
    """None if `policy` makes the recorded switch of the recorded inputs; else what it makes instead."""
    _, made = policy.step(record.before, record.seen)
    if made is None:
        return "no switch"
    for name in Switch.__slots__:
        recorded, again = getattr(record.switch, name), getattr(made, name)
        if recorded != again:
            return f"{name} {again} instead of {recorded}"
    return None
