"""B-01: characters cut in half between network chunks.

Right value: the de-framed body at the client equals the engine's, byte for byte, however the bytes were
spread over segments and HTTP chunks. Chunking carries no meaning (RFC 9112 §7.1); an event stream is
decoded by its reader, not by a relay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from .kit.client import chat_body, post
from .kit.conn import EngineConn, RawRequest, response_head
from .kit.engine import FakeEngine, Script
from .kit.exchange import exchange
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.sdk import SDKS, Sdk, sdk_chat
from .kit.sse import (
    DONE,
    SSE_HEADERS,
    chat_events,
    chunked,
    split_at,
    split_every,
    split_randomly,
)

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
TEXTS = ("é", "京", "🌍", FAMILY, "naïve 京都 🌍")
EVENTS = [b'data: {"content":"%s"}\n\n' % text.encode() for text in TEXTS]
EVENTS[3:3] = [b'data: {"content":"\xff"}\r\n\r\n']
EVENTS += [DONE]
BODY = b"".join(EVENTS)
MULTI_BYTE = [
    character.encode() for character in dict.fromkeys("".join(TEXTS)) if len(character.encode()) > 1
]

SPLITS: dict[str, Callable[[bytes], list[bytes]]] = {
    "one_segment": lambda wire: [wire],
    "one_byte_each": lambda wire: split_every(wire, 1),
    "inside_characters": lambda wire: split_at(wire, *MULTI_BYTE, FAMILY.encode()),
    "inside_markers": lambda wire: split_at(wire, b"\r\n", b"\n\n", b"data", b"[DONE]"),
    "random_1": lambda wire: split_randomly(wire, 1),
    "random_2": lambda wire: split_randomly(wire, 2, most=700),
}
FRAMINGS: dict[str, Callable[[bytes], bytes]] = {
    "event_per_chunk": lambda body: chunked(*EVENTS) if body == BODY else chunked(body),
    "one_chunk": lambda body: chunked(body),
    "byte_per_chunk": lambda body: chunked(*split_every(body, 1)),
    "length": lambda body: body,
    "until_close": lambda body: body,
}


def answer(framing: str, split: str, body: bytes = BODY) -> Script:
    """A script that sends the body in that framing, cut into segments in that way."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        length = (("content-length", str(len(body))),) if framing == "length" else ()
        close = (("connection", "close"),) if framing == "until_close" else ()
        in_chunks = framing not in ("length", "until_close")
        head = response_head("200 OK", (*SSE_HEADERS, *length, *close), chunked=in_chunks)
        await conn.send_pieces(
            SPLITS[split](head + FRAMINGS[framing](body)), gap=0.0 if framing == "byte_per_chunk" else 0.0005
        )
        if framing == "until_close":
            conn.fin()

    return script


def assert_same(got: bytes | bytearray, sent: bytes) -> None:
    """Equal, told by digest first and then by the first difference."""
    if hashlib.sha256(got).digest() != hashlib.sha256(sent).digest():
        at = next(
            (i for i, (x, y) in enumerate(zip(got, sent, strict=False)) if x != y), min(len(got), len(sent))
        )
        raise AssertionError(f"{len(got)} of {len(sent)} bytes, differ at {at}: {bytes(got[at : at + 60])!r}")


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("split", SPLITS)
async def test_bytes_unchanged(router: RouterProcess, a: FakeEngine, split: str, framing: str) -> None:
    """B-01 (a)-(d) in every framing: same bytes, the invalid one included."""
    seen = await exchange(router, a, answer(framing, split))
    assert_same(seen.response.body, BODY)


@pytest.mark.parametrize("target", ["/v1/completions", "/generate", "/v1/messages", "/v1/responses"])
async def test_other_endpoints(router: RouterProcess, a: FakeEngine, target: str) -> None:
    """B-01 on the other streaming endpoints: same bytes."""
    seen = await exchange(
        router, a, answer("event_per_chunk", "inside_characters"), post(chat_body(stream=True), target)
    )
    assert_same(seen.response.body, BODY)


@pytest.mark.parametrize(
    "start",
    [b"\xef\xbb\xbf", b"\xff\xfe", b": ping \xe4\xba\xac\n\n", b"\n\n\n", b"\x00", b"id: 1\nretry: 5\n\n"],
    ids=["bom", "utf16_bom", "comment", "blank_lines", "nul", "fields_without_data"],
)
async def test_odd_starts(router: RouterProcess, a: FakeEngine, start: bytes) -> None:
    """B-01 where the first event, the one that is looked at, is odd: same bytes."""
    seen = await exchange(router, a, answer("one_chunk", "one_byte_each", start + BODY[:200]))
    assert_same(seen.response.body, start + BODY[:200])


async def test_not_streamed(router: RouterProcess, a: FakeEngine) -> None:
    """B-01 for a whole JSON answer split inside characters and holding an invalid byte: same bytes."""
    body = ('{"text":"' + "".join(TEXTS) + '"}').encode().replace(b"na", b"\xff\x00")

    async def script(conn: EngineConn, request: RawRequest) -> None:
        head = response_head("200 OK", (("content-type", "application/json"),), chunked=True)
        await conn.send_pieces(split_every(head + chunked(*split_every(body, 1)), 3), gap=0.0005)

    seen = await exchange(router, a, script, post(chat_body(stream=False)))
    assert_same(seen.response.body, body)


@pytest.mark.parametrize("sdk", SDKS)
async def test_sdk_reads_the_text(router: RouterProcess, a: FakeEngine, sdk: Sdk) -> None:
    """B-01 seen by the stock SDKs: the text is whole."""
    a.script = answer("one_chunk", "inside_characters", b"".join(chat_events(TEXTS)))
    seen = await sdk_chat(sdk, router.data_port, stream=True)
    assert (seen.text, seen.finish, seen.error) == ("".join(TEXTS), "stop", None)


async def test_quiet(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Nothing is left behind after all of them."""
    await assert_quiet(router, a, b)
