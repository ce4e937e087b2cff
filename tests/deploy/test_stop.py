"""Case B-32 in a container: docker stop reaches the router itself, which drains, with and without an init."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.container import Container, children_of
from tests.deploy.network import Network
from tests.deploy.test_demo_stack import FIRST, JSON, until

LONG = {
    "model": "sim",
    "messages": [{"role": "user", "content": "hi"}],
    "max_tokens": 300,
    "ignore_eos": True,
    "stream": True,
}


@pytest.mark.parametrize("init", [("tini", "--"), ()], ids=["with init", "as process 1"])
def test_docker_stop_lets_a_stream_end(
    stacks: dict[str, Any], network: Network, tmp_path: Path, init: tuple[str, ...]
) -> None:
    services = stacks["demo"]["services"]
    network.name("router", "127.0.0.11")
    network.name("speculative", FIRST)
    network.name("baseline", FIRST)
    engines = Container(services["engines"], network, tmp_path / "engines")
    router = Container(services["router"], network, tmp_path / "router", init=init)
    answers = []
    try:
        engines.start()
        router.start()
        until(lambda: network.status("router", 8000, "/readyz") == 200, 30, "ready")
        stream = threading.Thread(
            target=lambda: answers.append(
                network.ask("router", 8000, "/v1/chat/completions", "POST", JSON, LONG)
            )
        )
        stream.start()
        until(lambda: _active(network) == 1, 10, "a stream is open")
        began = time.monotonic()
        os.kill(router.main_pid, signal.SIGTERM)
        until(lambda: network.status("router", 8000, "/readyz") in (503, None), 5, "not ready")
        stream.join(20)
        assert router.process is not None
        code = router.process.wait(20)
        assert time.monotonic() - began < 15.0 + 1.0
        # An init hands the status of the process on.
        assert code == 0, router.log
        (answer,) = answers
        assert answer is not None
        assert answer[0] == 200
        assert answer[2].rstrip().endswith("data: [DONE]")
        assert "Traceback" not in router.log
    finally:
        router.kill()
        engines.kill()


def _active(network: Network) -> int:
    answer = network.ask("router", 29000, "/metrics")
    assert answer is not None
    lines = [line for line in answer[2].splitlines() if line.startswith("spec_router_in_flight{")]
    return int(sum(float(line.rpartition(" ")[2]) for line in lines))


@pytest.mark.parametrize("init", [("tini", "--"), ()], ids=["with init", "as process 1"])
@pytest.mark.parametrize("name", ["engines", "load"])
def test_docker_stop_ends_the_others(
    stacks: dict[str, Any], network: Network, tmp_path: Path, name: str, init: tuple[str, ...]
) -> None:
    network.name("router", "127.0.0.11")
    container = Container(stacks["demo"]["services"][name], network, tmp_path / name, init=init)
    try:
        container.start()
        said = {"engines": "speculative", "load": ""}[name]
        until(lambda: said in container.log and _handles_term(container), 20, "it runs")
        # Nobody answers the load here, which it tells by its status.
        assert container.stop() == {"engines": 0, "load": 1}[name], container.log
    finally:
        container.kill()


def _handles_term(container: Container) -> bool:
    """Whether Python inside catches SIGTERM; as process 1 it would not hear it before."""
    for pid in _inside(container):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        caught = int(next(line for line in status.splitlines() if line.startswith("SigCgt:")).split()[1], 16)
        if caught >> (signal.SIGTERM - 1) & 1 and b"python" in command:
            return True
    return False


def _inside(container: Container) -> list[int]:
    """Process 1 and its children."""
    assert container.process is not None
    first = children_of(container.process.pid)
    return [*first, *(child for pid in first for child in children_of(pid))]


def test_stop_before_the_router_listens(stacks: dict[str, Any], network: Network, tmp_path: Path) -> None:
    """With an init a stop during the start ends it at once, whatever it has set up so far."""
    container = Container(stacks["demo"]["services"]["router"], network, tmp_path / "router")
    try:
        container.start()
        until(lambda: len(_inside(container)) == 2, 10, "the process is there")
        began = time.monotonic()
        assert container.stop(5) in (0, 143)
        assert time.monotonic() - began < 5
    finally:
        container.kill()
