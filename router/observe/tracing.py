"""Spans of proxied requests. The only module that knows OpenTelemetry, which is an extra.

A `request` has the children `queue`, one `attempt` for each time an engine was asked, and `relay`. Nothing
that a client wrote but its request id, and no address or key of an engine, becomes an attribute.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace import Tracer as Spans
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from router.core.events import Decision, RequestRecord
from router.core.failure import Failure
from router.core.headers import Headers
from router.core.words import Outcome

P = "spec_router."
CONTEXT = (b"traceparent", b"tracestate")
NANOSECONDS = 1e9
# How long one batch may take to reach the collector; at the end, how long all that is left may.
EXPORT_SECONDS = 5


class RequestTrace:
    """The spans of one request; see `router.proxy.trace.Trace`."""

    def __init__(self, spans: Spans, carrier: TraceContextTextMapPropagator, headers: Headers, now: float):
        self._spans = spans
        self._carrier = carrier
        # Times are the loop's; the wall clock is asked once, so that no span is moved by a step of it.
        self._origin = time.time_ns() - int(now * NANOSECONDS)
        context = {name.decode(): value.decode("latin-1") for name, value in headers if name in CONTEXT}
        parent = carrier.extract(context)
        self._root = spans.start_span("request", parent, SpanKind.SERVER, start_time=self._at(now))
        self._within = set_span_in_context(self._root, Context())
        self._attempt: Span | None = None
        self._relay: Span | None = None

    @contextmanager
    def queue(self) -> Iterator[None]:
        """See the protocol."""
        span = self._child("queue", SpanKind.INTERNAL)
        try:
            yield
        finally:
            span.end(self._now())

    @contextmanager
    def attempt(self, decision: Decision, *, fresh: bool) -> Iterator[Headers]:
        """See the protocol."""
        span = self._attempt = self._child("attempt", SpanKind.CLIENT)
        span.set_attribute(P + "path", decision.path.value)
        span.set_attribute(P + "reason", decision.reason.value)
        span.set_attribute(P + "fresh_connection", fresh)
        outcome = Outcome.FAILED
        try:
            yield self._context(span)
            outcome = Outcome.OK
        except Failure as failure:
            outcome = failure.row.outcome
            _blame(span, failure.kind.value)
            raise
        except asyncio.CancelledError:
            outcome = Outcome.CANCELLED
            raise
        finally:
            self._attempt = None
            span.set_attribute(P + "outcome", outcome.value)
            now = self._now()
            if self._relay is not None:
                self._relay.end(now)
                self._relay = None
            span.end(now)

    def relay(self, first_byte: float | None) -> None:
        """See the protocol."""
        if self._attempt is not None and first_byte is not None:
            self._attempt.add_event("first_byte", timestamp=self._at(first_byte))
        self._relay = self._child("relay", SpanKind.INTERNAL)

    def end(self, record: RequestRecord) -> None:
        """See the protocol."""
        root = self._root
        if root.is_recording():
            for name, value in _attributes(record).items():
                if value is not None:
                    root.set_attribute(name, value)
            if record.outcome is not Outcome.OK:
                _blame(root, record.kind.value if record.kind else record.outcome.value)
        root.end(self._now())

    def _child(self, name: str, kind: SpanKind) -> Span:
        return self._spans.start_span(name, self._within, kind, start_time=self._now())

    def _context(self, span: Span) -> Headers:
        fields: dict[str, str] = {}
        self._carrier.inject(fields, set_span_in_context(span, Context()))
        return [(name.encode(), value.encode()) for name, value in fields.items()]

    def _now(self) -> int:
        return self._at(asyncio.get_running_loop().time())

    def _at(self, moment: float) -> int:
        return self._origin + int(moment * NANOSECONDS)


class Tracing:
    """Begins the traces of requests.

    Args:
        processor: takes ended spans.
        sample: the share of requests traced of those that bring no trace; the others do as their trace does.
        version: of this program.
        pair: the pair's name.
    """

    def __init__(self, processor: SpanProcessor, sample: float, version: str, pair: str) -> None:
        resource = Resource.create(
            {"service.name": "spec-router", "service.version": version, P + "pair": pair}
        )
        # A router in this process is stopped by its owner, not by the interpreter's end.
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(sample)), resource=resource, shutdown_on_exit=False
        )
        self._provider.add_span_processor(processor)
        self._spans = self._provider.get_tracer("spec-router", version)
        self._carrier = TraceContextTextMapPropagator()

    def begin(self, headers: Headers, now: float) -> RequestTrace:
        """See `router.proxy.trace.Tracer`."""
        return RequestTrace(self._spans, self._carrier, headers, now)

    def close(self) -> None:
        """See `router.proxy.trace.Tracer`."""
        # The library waits up to 30 s for a collector that is not there, and cannot be told otherwise.
        closing = threading.Thread(target=self._provider.shutdown, name="tracing-close", daemon=True)
        closing.start()
        closing.join(EXPORT_SECONDS)


def otlp(endpoint: str) -> SpanProcessor:
    """Sends spans to a collector in batches, from a thread of its own; what does not fit is dropped.

    Raises:
        ImportError: the extra is not installed whole.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_SECONDS)
    return BatchSpanProcessor(exporter)


def _blame(span: Span, what: str) -> None:
    span.set_attribute(P + "failure", what)
    span.set_status(StatusCode.ERROR, what)


def _attributes(record: RequestRecord) -> dict[str, str | int | float | bool | None]:
    return {
        "http.route": record.route,
        "http.response.status_code": record.status,
        P + "request_id": record.request_id,
        P + "path": record.path.value if record.path else None,
        P + "reason": record.reason.value if record.reason else None,
        P + "outcome": record.outcome.value,
        P + "streamed": record.streamed,
        P + "prompt_tokens": record.prompt_tokens,
        P + "completion_tokens": record.completion_tokens,
    }
