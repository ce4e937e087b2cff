"""Every way in which an answer can be framed, cut or wrong, as the upstream client reports it."""

from __future__ import annotations

import pytest

from router.core.failure import Kind
from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine
from tests.cases.kit.waiting import until
from tests.support.upstream import EMPTY, OK, call, failure_of, pool_of, saying

CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
LENGTH_5 = OK + b"content-length: 5\r\n\r\n"

WHOLE: dict[str, tuple[list[bytes], str, bytes, bool]] = {
    "length": ([LENGTH_5 + b"hello"], "stay", b"hello", True),
    "length_in_pieces": ([OK, b"content-length: 5\r\n", b"\r\nhe", b"llo"], "stay", b"hello", True),
    "chunked": ([CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"], "stay", b"hello", True),
    "chunked_in_pieces": (
        [CHUNKED, b"2\r", b"\nh", b"e\r\n3\r\nllo", b"\r\n0\r\n", b"\r\n"],
        "stay",
        b"hello",
        True,
    ),
    "chunk_extension_and_trailer": (
        [CHUNKED + b"5;a=b\r\nhello\r\n0\r\nx-late: 1\r\n\r\n"],
        "stay",
        b"hello",
        True,
    ),
    "empty": ([EMPTY], "stay", b"", True),
    "no_content": ([b"HTTP/1.1 204 No Content\r\n\r\n"], "stay", b"", True),
    "until_close": ([OK + b"\r\n", b"hel", b"lo"], "fin", b"hello", False),
    "until_close_empty": ([OK + b"\r\n"], "fin", b"", False),
    "http10": ([b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello"], "stay", b"hello", False),
    "announces_close": (
        [OK + b"connection: close\r\ncontent-length: 5\r\n\r\nhello"],
        "stay",
        b"hello",
        False,
    ),
    "interim": (
        [
            b"HTTP/1.1 100 Continue\r\n\r\n",
            b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + LENGTH_5 + b"hello",
        ],
        "stay",
        b"hello",
        True,
    ),
    "a_second_answer": ([LENGTH_5 + b"hello" + EMPTY], "stay", b"hello", False),
    "garbage_behind": ([LENGTH_5 + b"hello\x00\x01garbage"], "stay", b"hello", False),
}

BROKEN: dict[str, tuple[list[bytes], str, Kind]] = {
    "nothing": ([], "fin", Kind.RESET),
    "reset": ([], "rst", Kind.RESET),
    "half_a_head": ([OK + b"content-"], "fin", Kind.RESET),
    "head_only": ([LENGTH_5], "fin", Kind.RESET),
    "cut_length": ([LENGTH_5 + b"hel"], "fin", Kind.BROKEN),
    "cut_chunk": ([CHUNKED + b"5\r\nhel"], "fin", Kind.BROKEN),
    "no_last_chunk": ([CHUNKED + b"5\r\nhello\r\n"], "fin", Kind.BROKEN),
    "reset_until_close": ([OK + b"\r\n", b"hello"], "rst", Kind.BROKEN),
    "not_http": ([b"SSH-2.0-OpenSSH_9.9\r\n"], "stay", Kind.PROTOCOL),
    "bare_line_feeds": ([b"HTTP/1.1 200 OK\ncontent-length: 5\n\nhello"], "stay", Kind.PROTOCOL),
    "bad_status": ([b"HTTP/1.1 abc OK\r\n\r\n"], "stay", Kind.PROTOCOL),
    "bad_chunk_size": ([CHUNKED + b"zz\r\nhello\r\n"], "stay", Kind.PROTOCOL),
    "bad_second_chunk": ([CHUNKED + b"5\r\nhello\r\n", b"zz\r\n"], "stay", Kind.BROKEN),
    "two_lengths": ([OK + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello"], "stay", Kind.PROTOCOL),
    "length_and_chunks": (
        [OK + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"],
        "stay",
        Kind.PROTOCOL,
    ),
    "another_protocol": (
        [b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"],
        "stay",
        Kind.PROTOCOL,
    ),
    "large_head": (
        [OK + b"".join(b"x-%d: %s\r\n" % (i, b"y" * 1000) for i in range(70)) + b"\r\n"],
        "stay",
        Kind.PROTOCOL,
    ),
}


@pytest.mark.parametrize("name", WHOLE)
async def test_whole_answers(a: FakeEngine, name: str) -> None:
    pieces, then, body, reusable = WHOLE[name]
    a.script = saying(*pieces, then=then)
    pool = pool_of(a)
    answer = await call(pool)
    assert answer.body == body
    assert answer.status == (204 if name == "no_content" else 200)
    assert b"link" not in answer.headers
    assert b"x-late" not in answer.headers
    if name != "a_second_answer":  # the excess may arrive later than the end
        assert answer.reusable is reusable
        assert pool.idle == (1 if reusable else 0)
    assert (await call(pool)).body == body, "the next request is not disturbed"
    pool.close()


@pytest.mark.parametrize("name", BROKEN)
async def test_broken_answers(a: FakeEngine, name: str) -> None:
    pieces, then, kind = BROKEN[name]
    a.script = saying(*pieces, then=then)
    pool = pool_of(a)
    assert await failure_of(pool) is kind
    assert (pool.idle, pool.in_use) == (0, 0)
    await until(lambda: not a.live, 2.0, "the connection is closed")
    pool.close()


async def test_a_header_without_end_costs_no_memory(a: FakeEngine) -> None:
    """Ten megabytes of one header line: given up long before."""
    sent = 0

    async def script(conn: EngineConn, request: RawRequest) -> None:
        nonlocal sent
        await conn.send(OK + b"x-endless: ")
        while sent < 10 << 20:
            await conn.send(b"y" * 65536)
            sent += 65536

    a.script = script
    pool = pool_of(a)
    assert await failure_of(pool) is Kind.PROTOCOL
    await until(lambda: not a.live, 2.0)
    assert sent < 10 << 20
    pool.close()


async def test_bytes_before_a_break_are_delivered(a: FakeEngine) -> None:
    a.script = saying(CHUNKED + b"5\r\nhello\r\n", then="fin")
    pool = pool_of(a)
    connection = await pool.acquire()
    await connection.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"")
    await until(lambda: connection.is_closed, 2.0)
    assert await connection.read() == b"hello"
    pool.release(connection)
    pool.close()


async def test_bytes_that_nobody_asked_for_close_an_idle_connection(a: FakeEngine) -> None:
    pool = pool_of(a)
    await call(pool)
    await a.conns[0].send(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
    await until(lambda: not a.live, 2.0)
    assert (await call(pool)).status == 200
    pool.close()
