"""Spans of requests: what belongs to what, what they tell, what goes to the engines, and what does not."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, TraceFlags

from router.observe.tracing import Tracing
from router.sim.server import SimulatedPair
from tests.cases.kit.client import RawClient, chat_body, good, good_ns, post
from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine
from tests.cases.kit.waiting import until
from tests.integration.conftest import RouterFactory
from tests.support.holding import Holding
from tests.support.running import Running, gather_all

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = ("traceparent", f"00-{TRACE}-{PARENT}-01")
SECRET = "sk-secret-key"


class Spans:
    """What the router has reported so far."""

    def __init__(self, router: Running, sample: float = 1.0) -> None:
        self._memory = InMemorySpanExporter()
        processor = SimpleSpanProcessor(self._memory)
        router.router.services.tracer = Tracing(processor, sample, "0", "default")

    def all(self) -> tuple[ReadableSpan, ...]:
        """Ended spans, oldest first."""
        return self._memory.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of one name."""
        return [span for span in self.all() if span.name == name]

    async def root(self) -> ReadableSpan:
        """The one request's span, once it has ended; all others then have."""
        await until(lambda: bool(self.named("request")), 5.0, "an ended request")
        (root,) = self.named("request")
        return root


def told(span: ReadableSpan, *names: str) -> tuple[object, ...]:
    """Attributes of the router's own."""
    assert span.attributes is not None
    return tuple(span.attributes.get(f"spec_router.{name}") for name in names)


def header_of(span: ReadableSpan) -> str:
    """The `traceparent` that names the span."""
    context = span.get_span_context()
    assert context is not None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


async def refusing(conn: EngineConn, request: RawRequest) -> None:
    """A full engine."""
    await conn.reply(b"{}", "503 Service Unavailable")


async def test_a_request_has_a_queue_an_attempt_and_a_relay_within_it(
    sims: SimulatedPair, start: RouterFactory
) -> None:
    router = await start(sims.speculative, sims.baseline)
    spans = Spans(router)
    body = chat_body(stream=True, max_tokens=8, stream_options={"include_usage": True})
    assert (await router.ask(post(body))).status == 200
    root = await spans.root()
    (queue,), (attempt,), (relay,) = (spans.named(name) for name in ("queue", "attempt", "relay"))
    assert root.parent is None
    for child in (queue, attempt, relay):
        assert child.parent == root.get_span_context()
        assert child.start_time is not None
        assert child.end_time is not None
        assert root.start_time <= child.start_time <= child.end_time <= root.end_time  # type: ignore[operator]
    assert queue.end_time <= attempt.start_time  # type: ignore[operator]
    (first,) = attempt.events
    assert first.name == "first_byte"
    assert attempt.start_time < first.timestamp <= relay.start_time  # type: ignore[operator]
    assert (root.kind, attempt.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    assert told(attempt, "path", "reason", "outcome") == ("speculative", "policy", "ok")
    assert told(root, "path", "reason", "outcome", "completion_tokens") == ("speculative", "policy", "ok", 8)
    assert root.attributes is not None
    assert root.attributes["http.response.status_code"] == 200
    assert StatusCode.ERROR not in {span.status.status_code for span in spans.all()}


async def test_the_clients_trace_goes_on_in_the_engine(router: Running, a: FakeEngine) -> None:
    spans = Spans(router)
    sent = (SAMPLED, ("tracestate", "vendor=1"), ("baggage", "kept=1"))
    assert (await router.ask(good(headers=sent))).status == 200
    root = await spans.root()
    assert root.parent is not None
    assert f"{root.parent.span_id:016x}" == PARENT
    (attempt,) = spans.named("attempt")
    (request,) = a.requests
    assert request.head.all("traceparent") == [header_of(attempt)]
    assert TRACE in header_of(attempt)
    assert request.head.all("tracestate") == ["vendor=1"]
    assert request.head.all("baggage") == ["kept=1"]


async def test_a_broken_trace_of_a_client_is_replaced(router: Running, a: FakeEngine) -> None:
    spans = Spans(router)
    sent = (("traceparent", "00-zz-\xff-01"), ("tracestate", "vendor=1"))
    assert (await router.ask(good(headers=sent))).status == 200
    assert (await spans.root()).parent is None
    (request,) = a.requests
    assert request.head.all("traceparent") == [header_of(spans.named("attempt")[0])]
    assert request.head.all("tracestate") == []


async def test_each_try_is_an_attempt(router: Running, a: FakeEngine, b: FakeEngine) -> None:
    spans = Spans(router)
    a.script = refusing
    assert (await router.ask(good())).status == 200
    await spans.root()
    first, second = spans.named("attempt")
    assert told(first, "path", "reason", "outcome", "failure") == (
        "speculative",
        "policy",
        "failed",
        "engine_overloaded",
    )
    assert first.status.status_code is StatusCode.ERROR
    assert told(second, "path", "reason", "outcome") == ("baseline", "retry", "ok")
    assert [engine.requests[0].head.get("traceparent") for engine in (a, b)] == [
        header_of(first),
        header_of(second),
    ]
    assert [event.name for event in first.events] == []
    assert len(spans.named("relay")) == 1


@pytest.mark.parametrize("engine_answers", [False, True], ids=["before the first byte", "in mid-stream"])
async def test_a_client_that_leaves_ends_every_span(
    router: Running, a: FakeEngine, engine_answers: bool
) -> None:
    async def silent(conn: EngineConn, request: RawRequest) -> None:
        if engine_answers:
            await conn.head(headers=(("content-type", "text/event-stream"), ("transfer-encoding", "chunked")))
            await conn.chunk(b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n')
        await until(conn.peer_is_gone, 5.0, "the client's departure")

    spans = Spans(router)
    a.script = silent
    async with await RawClient.connect(router.data) as client:
        await client.request(good())
        await a.wait_requests(1)
        if engine_answers:
            await client.body(1)
        client.rst()
        root = await spans.root()
    assert told(root, "outcome", "failure") == ("cancelled", "client_gone")
    (attempt,) = spans.named("attempt")
    assert told(attempt, "outcome") == ("cancelled",)
    assert len(spans.named("relay")) == engine_answers
    assert all(span.end_time is not None for span in spans.all())


async def test_a_wait_in_the_queue_is_seen_and_ends_when_the_client_leaves(
    start: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    router = await start(a, b, server={"max_active": 1})
    spans = Spans(router)
    holding = Holding(a)
    async with await RawClient.connect(router.data) as first, await RawClient.connect(router.data) as second:
        await first.request(good())
        await until(lambda: holding.held == 1, 5.0, "a request at the engine")
        await second.request(good())
        await until(lambda: router.router.services.door.waiting == 1, 5.0, "a request in the queue")
        second.rst()
        root = await spans.root()
        assert told(root, "path", "outcome") == (None, "cancelled")
        assert len(spans.named("queue")) == 2
        assert spans.named("attempt") == []
        holding.release()
        await first.response()
    await until(lambda: len(spans.named("request")) == 2, 5.0, "two ended requests")


async def test_what_is_private_stays_so(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    router = await start(a, b, server={"api_keys": [SECRET]})
    spans = Spans(router)
    a.script = refusing
    key = (("authorization", f"Bearer {SECRET}"),)
    assert (await router.ask(good_ns(headers=key, user="someone"))).status == 200
    await spans.root()
    seen = "".join(span.to_json() for span in spans.all())
    for private in (SECRET, "capital", "someone", "127.0.0.1", str(a.port), str(b.port), "Traceback"):
        assert private not in seen


async def test_what_is_not_sampled_is_not_reported_but_passed_on(router: Running, a: FakeEngine) -> None:
    spans = Spans(router, sample=0.0)
    unsampled = ("traceparent", f"00-{TRACE}-{PARENT}-00")
    assert (await router.ask(good())).status == 200
    assert (await router.ask(good(headers=(unsampled,)))).status == 200
    assert spans.all() == ()
    own, passed = (request.head.get("traceparent") or "" for request in a.requests)
    assert int(own[-2:], 16) & TraceFlags.SAMPLED == 0
    assert passed.startswith(f"00-{TRACE}-")
    assert passed.endswith("-00")
    assert (await router.ask(good(headers=(SAMPLED,)))).status == 200
    assert TRACE in header_of(await spans.root())


async def test_without_tracing_the_clients_headers_pass_as_they_are(router: Running, a: FakeEngine) -> None:
    sent = (("traceparent", "anything"), ("tracestate", "vendor=1"))
    assert (await router.ask(good(headers=sent))).status == 200
    (request,) = a.requests
    assert request.head.all("traceparent") == ["anything"]
    assert request.head.all("tracestate") == ["vendor=1"]


async def test_concurrent_requests_do_not_mix(sims: SimulatedPair, start: RouterFactory) -> None:
    router = await start(sims.speculative, sims.baseline)
    spans = Spans(router)
    traces = [f"{number:032x}" for number in range(1, 21)]
    make: Callable[[str], bytes] = lambda trace: good(  # noqa: E731
        headers=(("traceparent", f"00-{trace}-{PARENT}-01"),), max_tokens=4
    )
    await gather_all(*(router.ask(make(trace)) for trace in traces))
    await until(lambda: len(spans.named("request")) == len(traces), 5.0, "all ended")
    roots = {span.get_span_context().trace_id: span for span in spans.named("request")}  # type: ignore[union-attr]
    assert set(roots) == {int(trace, 16) for trace in traces}
    for child in spans.named("attempt"):
        assert child.parent == roots[child.get_span_context().trace_id].get_span_context()  # type: ignore[union-attr]


async def test_spans_reach_a_collector(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """By OTLP over HTTP, as the configuration builds it; what is left goes out when the router stops."""
    async with FakeEngine("collector", speculative=False) as collector:

        async def taking(conn: EngineConn, request: RawRequest) -> None:
            await conn.reply(b"")

        collector.script = taking
        router = await start(a, b, tracing={"endpoint": collector.url})
        assert (await router.ask(good())).status == 200
        await router.quiet()
        await router.router.stop()
        (export,) = collector.requests
        assert export.path == "/v1/traces"
        for name in (b"request", b"queue", b"attempt", b"relay", b"spec-router"):
            assert name in bytes(export.body)
        assert json.dumps("capital").encode() not in bytes(export.body)
