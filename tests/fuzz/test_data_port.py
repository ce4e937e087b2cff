"""Whatever bytes arrive: an answer in the 2xx to 4xx or a closed connection; no 5xx, no traceback."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path as File

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router.core.routes import ROUTES, Handling
from router.core.words import Path
from tests.cases.kit.router import RouterProcess
from tests.soak.engines import EngineProcess

# A second of each property on a quiet machine is some hundred requests.
FUZZ = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
# Long enough for an answer on a busy machine, short because half a request has none to wait for.
PATIENCE = 1.0

PROXIED = sorted(route.label for route in ROUTES.values() if route.handling is Handling.PROXY)

tokens = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=12).map(str.encode)
values = st.binary(max_size=30).map(lambda raw: raw.translate(None, b"\r\n\0"))
targets = st.one_of(
    st.sampled_from(PROXIED).map(str.encode),
    st.binary(max_size=40).map(lambda raw: b"/" + raw.translate(None, b" \r\n")),
    st.sampled_from(
        [b"*", b"http://x/v1/models", b"//", b"/..", b"/v1/%2e%2e/flush_cache", b"/" + b"a" * 9000]
    ),
)
framings = st.sampled_from(
    [
        b"Content-Length: 2\r\n",
        b"Content-Length: 2\r\nContent-Length: 2\r\n",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 99999999999999999999\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: identity\r\n",
        b"",
    ]
)
bodies = st.one_of(
    st.just(b"{}"), st.just(b"2\r\n{}\r\n0\r\n\r\n"), st.just(b"zz\r\n{}"), st.binary(max_size=60)
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
fields = st.sampled_from(
    [
        "model",
        "messages",
        "stream",
        "max_tokens",
        "n",
        "rid",
        "min_p",
        "input",
        "prompt",
        "stream_options",
        "text",
    ]
)


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouterProcess]:
    folder: File = tmp_path_factory.mktemp("fuzz")
    engines = [EngineProcess(path) for path in Path]

    async def start() -> RouterProcess:
        await asyncio.gather(*(engine.start() for engine in engines))
        started = RouterProcess(
            folder, engines[0].url, engines[1].url, {"timeouts": {"client_header": "1s", "client_body": "1s"}}
        )
        await started.start()
        return started

    running = asyncio.run(start())
    try:
        yield running
        log = running.log
        assert running.alive
        assert "Traceback" not in log
        assert "never retrieved" not in log
        assert asyncio.run(running.metrics()).sum("in_flight") == 0
    finally:
        running.kill()
        for engine in engines:
            engine.kill()


def statuses(port: int, raw: bytes) -> list[int]:
    """Send bytes, half-close, and return the status of each answer."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
        answer = bytearray()
        try:
            sock.sendall(raw)
            sock.settimeout(PATIENCE)
            while piece := sock.recv(1 << 16):
                answer += piece
                if b"\r\n\r\n" in answer and b"connection: close" not in answer:
                    sock.settimeout(0.05)
        except (TimeoutError, ConnectionError):
            pass
    return [int(line[9:12]) for line in bytes(answer).split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]


@FUZZ
@given(
    method=st.sampled_from([b"POST", b"GET", b"PUT", b"OPTIONS", b"FOO", b"post", b""]),
    target=targets,
    version=st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9", b""]),
    extra=st.lists(st.tuples(tokens, values), max_size=5),
    framing=framings,
    body=bodies,
)
def test_heads(
    router: RouterProcess,
    method: bytes,
    target: bytes,
    version: bytes,
    extra: list[tuple[bytes, bytes]],
    framing: bytes,
    body: bytes,
) -> None:
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in extra)
    raw = method + b" " + target + b" " + version + b"\r\nHost: x\r\n" + lines + framing + b"\r\n" + body
    assert all(200 <= status < 500 for status in statuses(router.data_port, raw))


@FUZZ
@given(raw=st.binary(max_size=400))
def test_bytes(router: RouterProcess, raw: bytes) -> None:
    assert all(200 <= status < 500 for status in statuses(router.data_port, raw))


@FUZZ
@given(
    route=st.sampled_from(PROXIED),
    body=st.one_of(
        st.dictionaries(fields | st.text(max_size=6), json_values, max_size=6)
        .map(json.dumps)
        .map(str.encode),
        json_values.map(json.dumps).map(str.encode),
        st.binary(max_size=200),
    ),
)
def test_bodies(router: RouterProcess, route: str, body: bytes) -> None:
    head = f"POST {route} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
    raw = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    assert all(200 <= status < 500 for status in statuses(router.data_port, raw))
