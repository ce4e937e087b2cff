"""Prometheus counters and histograms, fed by the records of `core.events`.

Every label value comes from a closed vocabulary and every series exists from the start, so a rate is
right from the first event on and the scrape never grows. Children are looked up once, by enum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram

from router.core.events import Decision, RequestRecord
from router.core.failure import TABLE, Kind, Replay
from router.core.policy import Switch
from router.core.words import DecisionReason, Outcome, Path, Rejection, SwitchReason
from router.observe.tokens import completion_tokens

PREFIX = "spec_router"

TTFT_BUCKETS = (
    *(0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.25, 0.5),
    *(1, 2.5, 5, 10, 30, 60, 120, 300, 600),
)
PER_TOKEN_BUCKETS = (
    *(0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05),
    *(0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5),
)
DURATION_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800)
QUEUE_BUCKETS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

NO_PATH = "none"
PINS = (DecisionReason.CLASS, DecisionReason.AFFINITY, DecisionReason.HEADER)


class Metrics:
    """An `Observer` that counts.

    Args:
        registry: where the metrics are registered.
        pair: name of the pair, a label value.
        paths: the paths that the pair has.
        accept_length: live tokens per speculative step, None while unknown; for token estimates.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        pair: str,
        paths: Sequence[Path],
        accept_length: Callable[[], float | None],
    ) -> None:
        self._registry = registry
        self._pair = pair
        self._paths = tuple(paths)
        self._accept_length = accept_length
        self._make_request_metrics()
        self._make_decision_metrics()
        self._make_times()

    def _make_request_metrics(self) -> None:
        maybe_paths = (*self._paths, None)
        requests = self._counter("requests", "Requests by how they ended.", "path", "outcome")
        self._requests = {
            (path, outcome): requests.labels(self._pair, path or NO_PATH, outcome)
            for path in maybe_paths
            for outcome in Outcome
        }
        failures = self._counter("failures", "Requests that failed, by kind of failure.", "path", "kind")
        self._failures = {
            (path, kind): failures.labels(self._pair, path or NO_PATH, kind)
            for path in maybe_paths
            for kind in Kind
        }
        aborts = self._counter("upstream_aborts", "Requests aborted by name because their client left.")
        self.on_abort = aborts.labels(self._pair).inc
        rejected = self._counter("rejected", "Requests that the router refused by itself.", "reason")
        self._rejected = {reason: rejected.labels(self._pair, reason) for reason in Rejection}
        tokens = self._counter(
            "tokens",
            "Tokens of answered requests, as the engine said or else estimated from stream events.",
            *("path", "kind", "source"),
        )
        self._prompt = {path: tokens.labels(self._pair, path, "prompt", "usage") for path in self._paths}
        self._completion = {
            (path, source): tokens.labels(self._pair, path, "completion", source)
            for path in self._paths
            for source in ("usage", "estimate")
        }

    def _make_decision_metrics(self) -> None:
        decisions = self._counter(
            "decisions", "Attempts by the path they were given, and why.", "path", "reason"
        )
        self._decisions = {
            (path, reason): decisions.labels(self._pair, path, reason)
            for path in self._paths
            for reason in DecisionReason
        }
        pins = self._counter(
            "pins", "Requests that named their path: by class, affinity or header.", "path", "reason"
        )
        self._pins = {
            (path, reason): pins.labels(self._pair, path, reason) for path in self._paths for reason in PINS
        }
        moves = [(origin, target) for origin in self._paths for target in self._paths]
        self._switch_counter = self._counter(
            "switches", "Changes of the active path, and why.", "from", "to", "reason"
        )
        for origin, target in moves:
            for why in SwitchReason if origin is not target else ():
                self._switch_counter.labels(self._pair, origin, target, why)
        self._retry_counter = self._counter(
            "retries",
            "Second tries: on the other path, or on a fresh connection where both paths are the same.",
            *("from", "to", "reason"),
        )
        for origin, target in moves:
            wanted = Replay.SAME if origin is target else Replay.OTHER
            for kind, row in TABLE.items():
                if row.replay is wanted:
                    self._retry_counter.labels(self._pair, origin, target, kind)

    def _make_times(self) -> None:
        first = self._histogram(
            "time_to_first_token_seconds",
            "Arrival of a streamed request to the first event of its answer.",
            TTFT_BUCKETS,
        )
        per_token = self._histogram(
            "time_per_output_token_seconds",
            "Time between output tokens of one streamed answer, after the first.",
            PER_TOKEN_BUCKETS,
        )
        duration = self._histogram(
            "request_duration_seconds", "Arrival of a request to the end of its answer.", DURATION_BUCKETS
        )
        self._first = {path: first.labels(self._pair, path) for path in self._paths}
        self._per_token = {path: per_token.labels(self._pair, path) for path in self._paths}
        self._duration = {path: duration.labels(self._pair, path) for path in self._paths}
        self._queue_wait = Histogram(
            f"{PREFIX}_queue_wait_seconds",
            "Time that requests spent in the router's queue.",
            ("pair",),
            registry=self._registry,
            buckets=QUEUE_BUCKETS,
        ).labels(self._pair)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", text, ("pair", *labels), registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        labels = ("pair", "path")
        return Histogram(f"{PREFIX}_{name}", text, labels, registry=self._registry, buckets=buckets)

    def on_decision(self, decision: Decision) -> None:
        """See `Observer`."""
        self._decisions[decision.path, decision.reason].inc()
        if decision.reason in PINS:
            self._pins[decision.path, decision.reason].inc()

    def on_retry(self, origin: Path, target: Path, kind: Kind) -> None:
        """See `Observer`."""
        self._retry_counter.labels(self._pair, origin, target, kind).inc()

    def on_switch(self, switch: Switch) -> None:
        """See `Observer`."""
        self._switch_counter.labels(self._pair, switch.origin, switch.target, switch.reason).inc()

    def on_rejected(self, reason: Rejection) -> None:
        """See `Observer`."""
        self._rejected[reason].inc()

    def on_finished(self, record: RequestRecord) -> None:
        """See `Observer`."""
        path = record.path
        self._requests[path, record.outcome].inc()
        if record.kind is not None:
            self._failures[path, record.kind].inc()
        if path is not None or record.queued_for > 0.0:
            self._queue_wait.observe(record.queued_for)
        if path is None:
            return
        self._duration[path].observe(record.duration)
        if record.streamed and record.first_byte is not None:
            self._first[path].observe(record.first_byte)
        self._count_tokens(path, record)

    def _count_tokens(self, path: Path, record: RequestRecord) -> None:
        if record.prompt_tokens is not None:
            self._prompt[path].inc(record.prompt_tokens)
        tokens, source = completion_tokens(record, self._accept_length)
        if tokens is None:
            return
        self._completion[path, source].inc(tokens)
        if record.streamed and tokens >= 2 and record.stream_time > 0.0:
            self._per_token[path].observe(record.stream_time / (tokens - 1))
