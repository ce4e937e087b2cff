"""Cases B-37 and B-30, as far as they go: the demo stack as processes, by the shipped configurations."""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.container import Container
from tests.deploy.network import Network

CHAT = {"model": "sim", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
JSON = {"content-type": "application/json"}
FIRST, SECOND = "127.0.0.21", "127.0.0.22"


def until(condition: Callable[[], bool], within: float, what: str) -> None:
    """Wait for something outside this process."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {within} s"
        time.sleep(0.1)


class Stack:
    """The services of docker-compose.demo.yml that this machine has programs for."""

    def __init__(self, services: dict[str, Any], network: Network, folder: Path) -> None:
        self.network = network
        self._services = services
        self._folder = folder
        self.running: dict[str, Container] = {}

    def up(self, name: str, folder: str = "", **options: Any) -> Container:
        """Start a service."""
        made = Container(self._services[name], self.network, self._folder / (folder or name), **options)
        made.start()
        self.running[name] = made
        return made

    def engines(self, address: str) -> Container:
        """The engines in a container that has this address."""
        made = self.up("engines", f"engines-{address}", replace={"0.0.0.0": address})
        for host in ("speculative", "baseline"):
            self.network.name(host, address)
        until(lambda: self.network.status("speculative", 30001, "/ready") == 200, 20, "engines")
        return made

    def router_is(self, status: int, within: float) -> None:
        """Wait for this answer of /readyz."""
        until(lambda: self.network.status("router", 8000, "/readyz") == status, within, f"/readyz {status}")

    def query(self, expr: str) -> list[dict[str, Any]]:
        """What Prometheus says."""
        path = f"/api/v1/query?{urllib.parse.urlencode({'query': expr})}"
        answer = self.network.ask("prometheus", 9090, path)
        return list(json.loads(answer[2])["data"]["result"]) if answer and answer[0] == 200 else []


@pytest.fixture
def stack(stacks: dict[str, Any], network: Network, tmp_path: Path) -> Iterator[Stack]:
    """Nothing runs yet; no name is known."""
    made = Stack(stacks["demo"]["services"], network, tmp_path)
    try:
        yield made
    finally:
        for container in made.running.values():
            container.kill()


@pytest.mark.timeout(240)
def test_from_nothing_to_a_load_and_down_again(stack: Stack) -> None:
    network = stack.network
    network.name("router", "127.0.0.11")
    router = stack.up("router")
    until(router.healthy, 20, "the router's health check")
    # No engine, not even a name.
    assert network.status("router", 8000, "/readyz") == 503
    refused = network.ask("router", 8000, "/v1/chat/completions", "POST", JSON, CHAT)
    assert refused is not None
    assert refused[0] == 503
    assert "retry-after" in {name.lower() for name in refused[1]}

    engines = stack.engines(FIRST)
    stack.router_is(200, 20)

    network.name("prometheus", "127.0.0.31")
    prometheus = stack.up("prometheus", isolated=False)
    load = stack.up("load")
    jobs = {"spec-router": 1, "sglang": 2}
    until(lambda: len(stack.query("up == 1")) == sum(jobs.values()), 30, "all targets are up")
    assert {series["metric"]["job"] for series in stack.query("up == 1")} == jobs.keys()
    up_and_down = 'count by (reason) (spec_router_switches_total{reason=~"high|low"} > 0)'
    until(lambda: len(stack.query(up_and_down)) == 2, 60, "a switch each way")
    assert stack.query('spec_router_requests_total{outcome="ok"} > 10')

    # The container comes back at another address; nobody restarts the router.
    assert load.stop() == 0, load.log
    assert engines.stop() == 0, engines.log
    stack.router_is(503, 20)
    stack.engines(SECOND)
    assert network.status(FIRST, 30001, "/ready") is None
    stack.router_is(200, 20)
    answer = network.ask("router", 8000, "/v1/chat/completions", "POST", JSON, CHAT)
    assert answer is not None
    assert answer[0] == 200

    assert stack.running["engines"].stop() == 0
    assert router.stop() == 0, router.log
    assert "Traceback" not in router.log
    assert prometheus.stop() == 0


def test_the_admin_port_is_for_prometheus(stack: Stack) -> None:
    network = stack.network
    network.name("router", "127.0.0.11")
    router = stack.up("router")
    until(router.healthy, 20, "the router's health check")

    def asked_as(host: str) -> int:
        answer = network.ask("router", 29000, "/metrics", headers={"host": host})
        assert answer is not None
        return answer[0]

    assert asked_as("router:29000") == 200
    assert asked_as("localhost:29000") == 200
    assert asked_as("rebound.example:29000") == 421
    changed = network.ask("router", 29000, "/admin/pin", "POST", JSON, {"path": "baseline", "reason": "x"})
    assert changed is not None
    assert changed[0] == 401


def test_each_health_check_tells_dead_from_alive(stack: Stack) -> None:
    stack.network.name("router", "127.0.0.11")
    router = Container(stack._services["router"], stack.network, stack._folder / "router")
    assert not router.healthy()
    engines = Container(stack._services["engines"], stack.network, stack._folder / "engines")
    assert not engines.healthy()
    engines = stack.up("engines")
    until(engines.healthy, 20, "the engines' health check")
