"""B-18: a total time limit cuts long answers.

Right value: separate limits for connecting, the first byte and a gap; no total limit on a stream that flows,
and defaults that are no shorter than openai-python's 600 s. A limit that strikes before the head gives 504,
after it a visible break as in B-13. Times are scaled here: first byte 1.5 s, gap 1 s.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from router.config.units import parse_duration

from .conftest import RouterFactory
from .kit import limits
from .kit.client import End, ask, assert_openai_error, good, good_ns
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine, Script
from .kit.engine import good as good_script
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.scripts import after, head_only, silent, ticking
from .kit.sse import DONE, chat_answer, role

CONFIG = {"timeouts": {"first_byte": "1500ms", "idle": "1s"}, "breaker": {"failure_threshold": 1000}}


async def one_gap(conn: EngineConn, request: RawRequest) -> None:
    """A quick first event, then most of the gap limit, then the end."""
    await conn.head()
    await conn.chunk(role())
    await conn.pause(0.8)
    await conn.chunk(DONE)
    await conn.end()


async def head_then_wait(conn: EngineConn, request: RawRequest) -> None:
    """The head early, the first byte of the body late."""
    await conn.head()
    await conn.pause(1.2)
    await conn.chunk(role() + DONE)
    await conn.end()


LONG: dict[str, tuple[Script, bytes]] = {
    "late_first_byte": (after(1.2, good_script), good()),
    "flows_for_long": (ticking(0.4, 8), good()),
    "one_gap": (one_gap, good()),
    "late_whole_answer": (after(1.2, good_script), good_ns()),
    "late_body": (head_then_wait, good()),
}


@pytest.mark.parametrize(("script", "data"), LONG.values(), ids=LONG)
async def test_long_answers(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, script: Script, data: bytes
) -> None:
    """B-18 (a) to (d): each within its own limit, all longer than the others."""
    a.script = script
    response = await ask(router.data_port, data)
    assert (response.status, response.end) == (200, End.COMPLETE)
    assert b"error" not in response.body
    assert b.requests == []


@pytest.mark.parametrize("script", [silent, head_only], ids=["nothing", "head_only"])
@pytest.mark.parametrize("data", [good(), good_ns()], ids=["stream", "whole"])
async def test_first_byte_limit(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, script: Script, data: bytes
) -> None:
    """B-18: 504 when nothing comes."""
    a.script = script
    started = time.monotonic()
    assert_openai_error(await ask(router.data_port, data), 504)
    assert 1.5 <= time.monotonic() - started <= 2.5
    await a.wait_closed(a.requests[0].conn, limits.CLOSE_SECONDS)


async def test_gap_limit(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-18: after the head a gap ends the stream visibly."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(role())
        await conn.pause(60)

    a.script = script
    started = time.monotonic()
    response = await ask(router.data_port, good())
    assert 1.0 <= time.monotonic() - started <= 2.0
    assert response.end in (End.EOF, End.RST)
    assert b"idle_timeout" in response.body
    await a.wait_closed(a.requests[0].conn, limits.CLOSE_SECONDS)
    await assert_quiet(router, a, b)


async def test_gap_inside_the_first_event(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-18: part of the first event, then silence; nothing was committed yet."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(b"data: {")
        await conn.pause(60)

    a.script = script
    assert_openai_error(await ask(router.data_port, good()), 504)
    assert b.requests == []


async def test_total_limit(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-18: a total limit exists for those who set it."""
    router = await router_factory({"timeouts": {"total": "1s"}})
    a.script = ticking(0.1)
    started = time.monotonic()
    response = await ask(router.data_port, good())
    assert 1.0 <= time.monotonic() - started <= 2.0
    assert response.end in (End.EOF, End.RST)
    assert b"total_timeout" in response.body
    await a.wait_closed(a.requests[0].conn, limits.CLOSE_SECONDS)


async def test_no_limits(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-18: 0 means none, for each of them."""
    zero = dict.fromkeys(
        ("first_byte", "idle", "total", "client_body", "client_write", "client_header"), "0s"
    )
    router = await router_factory({"timeouts": zero})
    a.script = after(1.5, one_gap)
    response = await ask(router.data_port, good())
    assert (response.status, response.end) == (200, End.COMPLETE)


def test_defaults(tmp_path: Path) -> None:
    """B-18: what the router is unless told otherwise."""
    pair = {"name": "default", "speculative": {"url": "http://127.0.0.1:1"}, "placement": "shared"}
    config = {"pairs": [{**pair, "baseline": {"url": "http://127.0.0.1:2"}}]}
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "router", "check", "--json", "-c", str(file)]
    shown = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    seconds = {name: parse_duration(value) for name, value in shown["timeouts"].items()}
    assert seconds["first_byte"] >= 600
    assert seconds["idle"] > 120
    assert seconds["total"] == 0
    assert 0 < seconds["connect"] <= 5
    assert seconds["keep_alive"] >= 75
    assert 0 < seconds["client_header"] <= 60
    assert 0 < seconds["client_body"] <= 120


async def test_slow_but_whole(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-18: a long answer in one piece, dripping slowly, is a flowing answer too."""
    body = chat_answer()

    async def script(conn: EngineConn, request: RawRequest) -> None:
        length = ("content-length", str(len(body)))
        await conn.head(headers=(("content-type", "application/json"), length), chunked=False)
        for at in range(0, len(body), 60):
            await conn.body(body[at : at + 60])
            await conn.pause(0.3)

    a.script = script
    response = await ask(router.data_port, good_ns())
    assert (response.end, bytes(response.body)) == (End.COMPLETE, body)
