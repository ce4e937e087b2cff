"""B-05: body decoded, label left on (or the reverse).

Right value: either the exact coded bytes with the exact headers, or decoded bytes with neither
`content-encoding` nor a stale length. The engine is not asked for a coding that the client did not accept
(RFC 9110 §12.5.3). A corrupt coded body passes untouched or gives 502; never a crash.
"""

from __future__ import annotations

import gzip
import zlib

import pytest

from .kit.client import End, ask, chat_body, good, good_ns, post
from .kit.conn import EngineConn, Fields, RawRequest
from .kit.engine import FakeEngine, Script
from .kit.exchange import lockstep
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.sse import JSON_HEADERS, SSE_HEADERS, chat_events

CONFIG = {"breaker": {"failure_threshold": 1000}}  # 500s are sent on purpose

PLAIN = (
    b'{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",'
    b'"content":"hello hello hello hello hello hello"},"finish_reason":"stop"}]}'
)
BROTLI = bytes.fromhex(
    "1ba200609c07b6a3b50ba750709b993dd6227b5b302b0daf7558bafaa6c817999e2ce46a5d126f9fcd3413ba2047a01b8b0f55f0"
    "322e36bf186568e0a1e38a0465299bc77f58ba242112804d31701ccdbbca13548d2a805d0ab603"
)
# A Zstandard frame (RFC 8878) with one raw block: magic, one-segment descriptor, size, block header.
ZSTD = b"\x28\xb5\x2f\xfd\x20" + bytes([len(PLAIN)]) + (len(PLAIN) << 3 | 1).to_bytes(3, "little") + PLAIN
CODED = {"gzip": gzip.compress(PLAIN), "deflate": zlib.compress(PLAIN), "br": BROTLI, "zstd": ZSTD}
STATUSES = ["200 OK", "400 Bad Request", "500 Internal Server Error", "503 Service Unavailable"]


def coded_answer(coding: str, body: bytes, status: str = "200 OK") -> Script:
    """A script that answers with that coded body."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(
            body, status, (*JSON_HEADERS, ("content-encoding", coding), ("vary", "Accept-Encoding"))
        )

    return script


def accept_encoding(value: str | None) -> Fields:
    """The request header, or none."""
    return () if value is None else (("accept-encoding", value),)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("coding", CODED)
@pytest.mark.parametrize("accept", ["gzip", "gzip, deflate, br, zstd", "identity", None])
async def test_body_and_label_agree(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, coding: str, status: str, accept: str | None
) -> None:
    """B-05: for success and errors alike, whatever the client accepted."""
    a.script = b.script = coded_answer(coding, CODED[coding], status)
    response = await ask(router.data_port, good_ns(accept_encoding(accept)))
    assert response.end is End.COMPLETE
    assert response.status == int(status.split()[0])
    label = response.head.get("content-encoding")
    assert bytes(response.body) == (PLAIN if label is None else CODED[coding])
    assert label in (None, coding)
    length = response.head.get("content-length")
    assert length is None or int(length) == len(response.body)


@pytest.mark.parametrize(
    "accept", [None, "identity", "gzip", "br;q=1.0, gzip;q=0.5", "deflate, *;q=0", "gzip;q=0", ""]
)
async def test_codings_asked_for(router: RouterProcess, a: FakeEngine, accept: str | None) -> None:
    """B-05: the engine is asked for nothing that the client did not accept."""
    for data in (good_ns(accept_encoding(accept)), good(accept_encoding(accept))):
        assert (await ask(router.data_port, data)).status == 200
    for request in a.requests:
        asked = ",".join(request.head.all("accept-encoding"))
        wanted = {item.strip() for item in (accept or "").split(",")}
        assert {item.strip() for item in asked.split(",")} <= wanted | {"", "identity"}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize(
    "body",
    [b"this is no gzip", b"", CODED["gzip"][:40], b"\x1f\x8b", PLAIN],
    ids=["text", "empty", "cut", "magic", "plain"],
)
async def test_corrupt(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, body: bytes, status: str, stream: bool
) -> None:
    """B-05: a body that is not what its label says passes untouched or gives 502."""
    a.script = b.script = coded_answer("gzip", body, status)
    response = await ask(router.data_port, post(chat_body(stream=stream), headers=accept_encoding("gzip")))
    assert response.end is End.COMPLETE
    if response.status != 502:
        assert response.status == int(status.split()[0])
        assert bytes(response.body) == body
        assert response.head.get("content-encoding") == "gzip"


async def test_two_codings(router: RouterProcess, a: FakeEngine) -> None:
    """Kin of B-05: a body coded twice."""
    body = gzip.compress(CODED["deflate"])
    a.script = coded_answer("deflate, gzip", body)
    response = await ask(router.data_port, good_ns(accept_encoding("gzip, deflate")))
    assert bytes(response.body) == (body if response.head.all("content-encoding") else PLAIN)


async def test_coded_event_stream(router: RouterProcess, a: FakeEngine) -> None:
    """Kin of B-05: a gzip-coded event stream, flushed per event, passes as it is and is not held back.

    Coded events have no readable end, so looking for a first event must give up on them.
    """
    packer = zlib.compressobj(wbits=31)
    pieces = [packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in chat_events()]
    pieces.append(packer.flush())

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.stream(pieces, gap=0.1, headers=(*SSE_HEADERS, ("content-encoding", "gzip")))

    a.script = script
    response = await ask(router.data_port, good(accept_encoding("gzip")))
    assert response.end is End.COMPLETE
    assert response.head.get("content-encoding") == "gzip"
    assert bytes(response.body) == b"".join(pieces)
    assert response.head_at < a.requests[-1].marks[-1].time - 0.2, "held until (nearly) the end"


async def test_binary_first_event(router: RouterProcess, a: FakeEngine) -> None:
    """Kin of B-05: coded bytes without the label, after a good first event."""
    events = [[chat_events()[0]], [CODED["gzip"]], [CODED["deflate"]]]
    seen = await lockstep(router, a, events)
    assert bytes(seen.response.body) == b"".join(event[0] for event in events)


async def test_quiet(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Nothing is left behind."""
    await assert_quiet(router, a, b)
