"""B-35: waiting for an engine watches its process, its port, its log and one real token, not one of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path as FilePath
from threading import Thread
from typing import Any

import pytest

from router.launch.procfs import variable
from tests.cases.kit.waiting import until
from tests.support.launching import GIB, B, Launcher, S


@pytest.fixture
def launch(tmp_path: FilePath) -> Iterator[Any]:
    """Makes launchers; what they leave is killed."""
    made: list[Launcher] = []

    def make(**settings: Any) -> Launcher:
        made.append(Launcher(tmp_path, **settings))
        return made[-1]

    yield make
    for each in made:
        each.clean()


def start_section(**keys: Any) -> dict[str, Any]:
    """Laid over the configuration."""
    return {"launch": {"start": keys}}


async def test_a_crash_while_loading_is_told_within_two_seconds(launch: Any) -> None:
    words = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    own = launch(knobs={"speculative": {"exit_after": 1.0, "exit_code": 3, "last_words": words}})
    own.start()
    await until(lambda: own.starts(S), 30, "a start")
    pid = own.starts(S)[0]["pid"]
    await until(lambda: not _lives(pid), 30, "its end")
    await own.says("exit code 3", within=2)
    assert words in own.said
    assert "has no kernels for this GPU" in own.said
    assert await own.ends() == 1
    assert own.starts(B) == []
    own.nothing_left()


def _lives(pid: int) -> bool:
    try:
        return ") Z" not in FilePath(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def test_a_crash_of_the_second_stops_the_first(launch: Any) -> None:
    own = launch(knobs={"baseline": {"exit_after": 0.3, "exit_code": 1}, "speculative": {"workers": True}})
    own.start()
    assert await own.ends(60) == 1
    assert "speculative: up" in own.said
    assert "baseline: ended while it started" in own.said
    assert "everything is stopped" in own.said
    own.nothing_left()


async def test_out_of_memory_in_graphs_is_explained(launch: Any) -> None:
    own = launch(knobs={"speculative": {"early": 70 * GIB}})
    own.start()
    assert await own.ends(60) == 1
    assert "out of GPU memory while CUDA graphs were captured" in own.said
    own.nothing_left()


async def test_weights_above_the_plan_are_explained_with_the_engines_own_minimum(launch: Any) -> None:
    own = launch(knobs={"speculative": {"weights": 40 * GIB}})
    own.start()
    assert await own.ends(60) == 1
    assert "--mem-fraction-static is too small" in own.said
    assert "SGLang wants more than 0." in own.said


@pytest.mark.parametrize("beats", [0.0, 0.1])
async def test_alive_but_never_listening_meets_the_limit(launch: Any, beats: float) -> None:
    own = launch(
        knobs={"speculative": {"never_listen": True, "heartbeat": beats}},
        config=start_section(stall="1500ms"),
    )
    own.start()
    assert await own.ends(60) == 1
    assert "alive, not ready: no progress for 2 s" in own.said
    assert "nothing of the model was loaded" in own.said
    own.nothing_left()


async def test_slow_but_progressing_is_waited_for(launch: Any) -> None:
    """Loading takes thrice the limit, each shard a third of it."""
    own = launch(
        knobs={"speculative": {"load_steps": 9, "load_step": 0.5}}, config=start_section(stall="1500ms")
    )
    began = time.monotonic()
    own.start("--no-serve", "--engine", "speculative")
    await own.says("all engines are up")
    assert time.monotonic() - began > 4.5
    assert "speculative: weights" in own.said


async def test_healthy_is_not_ready_until_a_token_was_made(launch: Any) -> None:
    own = launch(knobs={"speculative": {"unready_for": 2.0}})
    own.start("--no-serve", "--engine", "speculative")
    await until(lambda: own.engine_answers(S), 30, "200 on health")
    began = time.monotonic()
    await own.says("it serves")
    assert time.monotonic() - began > 1.5
    await own.says("all engines are up")


async def test_requests_that_never_work_meet_the_limit(launch: Any) -> None:
    own = launch(knobs={"speculative": {"unready_for": 600.0}}, config=start_section(stall="1500ms"))
    own.start("--no-serve", "--engine", "speculative")
    assert await own.ends(60) == 1
    assert "alive, not ready" in own.said
    assert "last answer: /generate says 503" in own.said


async def test_an_engine_without_ready_is_asked_for_health(launch: Any) -> None:
    own = launch(
        knobs={"speculative": {"no_ready": True}}, config={"launch": {"sglang": {"version": "0.5.16"}}}
    )
    own.start("--no-serve", "--engine", "speculative")
    await own.says("all engines are up")
    pid = own.starts(S)[0]["pid"]
    assert variable(pid, "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION") == "0"


async def test_taken_ports_are_told_before_anything_starts(launch: Any) -> None:
    own = launch()
    with contextlib.ExitStack() as stack:
        for port in own.ports.values():
            taken = stack.enter_context(socket.socket())
            taken.bind(("127.0.0.1", port))
            taken.listen(1)
        own.start()
        assert await own.ends() == 2
    for port in own.ports.values():
        assert f"port {port} cannot be used: address already in use by pid {os.getpid()} (" in own.said
    assert own.starts() == []


async def test_a_port_taken_meanwhile_is_explained(launch: Any) -> None:
    """Its log says "fired up" then; nobody believes it."""
    own = launch(knobs={"speculative": {"load_step": 1.0}})
    own.start("--no-serve", "--engine", "speculative")
    await own.says("speculative: started")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", own.ports["s"]))
        taken.listen(1)
        assert await own.ends(60) == 1
    assert "The server is fired up and ready to roll!" in own.said
    assert "a port was taken by another program" in own.said
    assert "all engines are up" not in own.said


async def test_another_program_that_answers_on_the_port_is_not_the_engine(launch: Any) -> None:
    own = launch(knobs={"speculative": {"load_step": 30.0}})
    own.start("--no-serve", "--engine", "speculative")
    await own.says("speculative: started")
    server = ThreadingHTTPServer(("127.0.0.1", own.ports["s"]), _Agreeable)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        assert await own.ends(60) == 1
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()
        thread.join()
    assert "is answered by another program: pid" in own.said
    own.nothing_left()


class _Agreeable(BaseHTTPRequestHandler):
    """200 to everything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


async def test_the_router_serves_both_when_all_is_up(launch: Any) -> None:
    own = launch()
    own.start()
    await own.serves()
    assert own.starts(S)
    assert own.starts(B)
    own.signal(signal.SIGTERM)
    assert await own.ends() == 0
    own.nothing_left()
