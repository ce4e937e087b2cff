"""`spec-router demo` and `spec-router sim` as processes, from their first line to their exit status."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import httpx
import pytest

START_LIMIT = 20.0
# Load that ends, then open requests, then those of others, then the router.
STOP_LIMIT = 30.0


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody uses right now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@contextmanager
def taken_port() -> Iterator[int]:
    """A loopback port on which somebody else listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@asynccontextmanager
async def command(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command in a session of its own; whatever is left of it at the end is killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "router",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def ended(process: asyncio.subprocess.Process, within: float) -> tuple[int, str, str]:
    """Exit status, and what is left of stdout and stderr."""
    out, err = await asyncio.wait_for(process.communicate(), within)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def line_with(process: asyncio.subprocess.Process, text: str) -> str:
    """Reads stdout up to a line that contains `text`."""
    assert process.stdout is not None
    async with asyncio.timeout(START_LIMIT):
        while line := await process.stdout.readline():
            if text in line.decode():
                return line.decode()
    raise AssertionError(f"stdout ended without {text!r}")


def nothing_left(process: asyncio.subprocess.Process, ports: list[int]) -> bool:
    """True if no process of its session runs and nobody listens on its ports."""
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    for port in ports:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
    return True


async def test_half_a_minute_of_load_switches_both_ways_and_loses_nothing() -> None:
    data, admin = free_ports(2)
    arguments = ("demo", "--seconds", "33", "--json", "--port", str(data), "--admin-port", str(admin))
    async with command(*arguments) as process:
        status, out, err = await ended(process, 33 + START_LIMIT + STOP_LIMIT)
        told = json.loads(out)
        assert (status, told["failed"], told["open_leases"]) == (0, 0, 0), err
        assert nothing_left(process, [data, admin])
    up, down = told["switches"][:2]
    assert (up["from"], up["to"], up["reason"]) == ("speculative", "baseline", "high")
    assert up["n"] >= told["policy"]["high"]
    assert (down["from"], down["to"], down["reason"]) == ("baseline", "speculative", "low")
    assert down["n"] <= told["policy"]["low"]
    assert 0 < up["at"] < down["at"] < 34
    paths = told["paths"]
    assert paths["speculative"]["requests"] + paths["baseline"]["requests"] == told["requests"]
    assert told["outcomes"]["ok"] >= told["requests"] > 100
    for path in paths.values():
        assert path["tokens"] > path["requests"] > 0
        assert path["tokens_per_second"] > 50
        assert 0 < path["ttft_p50"] <= path["ttft_p99"] < 5
    assert 0 < told["mixed_seconds"] < 15
    assert "N* = 10" in told["verdict"]
    assert "Traceback" not in err


async def test_ctrl_c_ends_the_demo_cleanly() -> None:
    data, admin = free_ports(2)
    async with command("demo", "--port", str(data), "--admin-port", str(admin)) as process:
        await line_with(process, "active speculative")
        async with httpx.AsyncClient(trust_env=False) as client:
            body = {"model": "sim", "prompt": "Hello", "max_tokens": 5}
            answer = await client.post(f"http://127.0.0.1:{data}/v1/completions", json=body)
            assert answer.status_code == 200
            assert (await client.get(f"http://127.0.0.1:{admin}/metrics")).status_code == 200
        process.send_signal(signal.SIGINT)
        status, out, err = await ended(process, STOP_LIMIT)
        assert (status, err) == (0, "")
        assert nothing_left(process, [data, admin])
    assert "0 failed, 0 still open" in out
    assert "verdict: speculation wins up to N* = 10" in out


@pytest.mark.parametrize("option", ["--port", "--admin-port"])
async def test_a_taken_port_is_told_before_anything_starts(option: str) -> None:
    with taken_port() as port:
        others = [name for name in ("--port", "--admin-port") if name != option]
        async with command(
            "demo", option, str(port), *(each for name in others for each in (name, "0"))
        ) as process:
            status, out, err = await ended(process, START_LIMIT)
    assert (status, out) == (2, "")
    assert err == f"{'data' if option == '--port' else 'admin'} port 127.0.0.1:{port} cannot be used: " + (
        "address already in use\n"
    )


async def test_a_profile_that_is_none_is_told() -> None:
    async with command("demo", "--profile", "fast") as process:
        status, out, err = await ended(process, START_LIMIT)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "'fast' is not allowed; allowed: seed, h200, strong" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_sim_serves_until_a_signal(number: signal.Signals) -> None:
    speculative, baseline = free_ports(2)
    ports = ("--speculative-port", str(speculative), "--baseline-port", str(baseline))
    async with command("sim", "--profile", "h200", *ports) as process:
        for path, port in (("speculative", speculative), ("baseline", baseline)):
            assert (await line_with(process, path)).split() == [path, f"http://127.0.0.1:{port}"]
        async with httpx.AsyncClient(trust_env=False) as client:
            for port in (speculative, baseline):
                assert (await client.get(f"http://127.0.0.1:{port}/v1/models")).status_code == 200
        process.send_signal(number)
        assert await ended(process, STOP_LIMIT) == (0, "", "")
        assert nothing_left(process, [speculative, baseline])


@pytest.mark.parametrize("path", ["speculative", "baseline"])
async def test_sim_tells_which_port_is_taken(path: str) -> None:
    other = "baseline" if path == "speculative" else "speculative"
    with taken_port() as port:
        async with command("sim", f"--{path}-port", str(port), f"--{other}-port", "0") as process:
            status, out, err = await ended(process, START_LIMIT)
    assert (status, out) == (2, "")
    assert err == f"{path} port 127.0.0.1:{port} cannot be used: address already in use\n"
