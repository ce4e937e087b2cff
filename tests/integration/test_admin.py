"""The admin port: what it tells, and to whom."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
import structlog
import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from router.admin.app import build_admin
from router.admin.guard import HostCheck, host_name, require_token
from router.admin.operator import Operator
from router.admin.status import SWITCHES_SHOWN, status_view
from router.admin.view import AdminView
from router.core.degraded import Harm
from router.core.failure import Effect
from router.core.health import Probe
from router.core.load import EngineLoad
from router.core.policy import Switch
from router.core.words import Outcome, Path, Sign, SwitchReason
from router.observe.metrics import Metrics
from router.observe.recent import Recent
from router.observe.state import StateCollector
from tests.support import FakeClock
from tests.unit.observe.build import record, watched


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def view(clock: FakeClock) -> AdminView:
    pair = watched(clock)
    return AdminView(
        version="1.2.3",
        watched=pair,
        recent=Recent(clock, lambda: None),
        ready=pair.pair.serving,
        draining=lambda: False,
        wall=lambda: 1_000_000.0 + clock(),
        operator=Operator(pair.pair, lambda: None, structlog.get_logger("test")),
        decisions=lambda: b"{}",
    )


def _registry(view: AdminView) -> CollectorRegistry:
    registry = CollectorRegistry()
    Metrics(registry, "main", tuple(Path), view.watched.accept_length)
    registry.register(StateCollector(view.watched, view.version))
    return registry


def _app(view: AdminView, *, allowed: tuple[str, ...] = (), bind: str = "127.0.0.1") -> ASGIApp:
    return build_admin(view, _registry(view), "", allowed, bind)


def _client(app: ASGIApp, host: str = "127.0.0.1:29000") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:29000", headers={"host": host})


@pytest.fixture
async def admin(view: AdminView) -> AsyncIterator[httpx.AsyncClient]:
    async with _client(_app(view)) as client:
        yield client


async def test_metrics_are_for_prometheus(admin: httpx.AsyncClient) -> None:
    began = time.perf_counter()
    answer = await admin.get("/metrics")
    assert time.perf_counter() - began < 0.05
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    names = {family.name for family in text_string_to_metric_families(answer.text)}
    assert {"spec_router_requests", "spec_router_in_flight", "spec_router_build_info"} <= names


async def test_alive_whatever_the_engines_do(admin: httpx.AsyncClient) -> None:
    for path in ("/healthz", "/health"):
        answer = await admin.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_ready_with_an_engine_and_not_while_draining(view: AdminView, clock: FakeClock) -> None:
    draining = False
    async with _client(_app(replace(view, draining=lambda: draining))) as admin:
        answer = await admin.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"status": "not ready"})
        view.watched.pair.engines[Path.BASELINE].record_ready(Probe.OK, clock())
        answer = await admin.get("/readyz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ready"})
        draining = True
        answer = await admin.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"status": "draining"})


async def test_the_status_of_an_idle_router_is_known_null_or_zero(admin: httpx.AsyncClient) -> None:
    idle: dict[str, Any] = {
        "active": 0,
        "up": False,
        "drained": False,
        "breaker": "closed",
        "running": None,
        "waiting": None,
        "tokens_per_second": None,
        "accept_length": None,
        "ttft_p50": None,
        "ttft_p99": None,
        "requests": 0,
        "tokens": 0,
        "engine": None,
    }
    assert (await admin.get("/admin/status")).json() == {
        "version": "1.2.3",
        "draining": False,
        "pairs": [
            {
                "name": "main",
                "placement": "shared",
                "policy": {"kind": "threshold", "high": 8, "low": 3, "dwell": 10.0, "smoothing": 2.0},
                "active_path": "speculative",
                "since_seconds": 0.0,
                "n": 0,
                "excess": 0,
                "problems": [],
                "why": "New requests go to speculative: load has stayed below 8 in flight since the start.",
                "degraded": None,
                "pin": None,
                "queued": 0,
                "mixed_seconds": 0.0,
                "paths": {"speculative": idle, "baseline": idle},
                "switches": [],
            }
        ],
    }


def test_the_status_of_a_busy_router(view: AdminView, clock: FakeClock) -> None:
    pair = view.watched.pair
    leases = [pair.ledger.open() for _ in range(9)]
    leases[0].start(Path.SPECULATIVE)
    leases[1].start(Path.BASELINE)
    pair.evaluate()
    clock.advance(2.5)
    view.watched.readings[Path.SPECULATIVE].record(
        EngineLoad(clock(), running=4, waiting=1, gen_throughput=50.0, accept_length=2.25)
    )
    view.recent.on_finished(record(path=Path.SPECULATIVE))
    for _ in range(5):
        pair.engines[Path.BASELINE].record_result(Effect.FAILURE, clock())
    (found,) = json.loads(json.dumps(status_view(view)))["pairs"]
    assert (found["active_path"], found["since_seconds"]) == ("baseline", 2.5)
    assert (found["n"], found["queued"], found["mixed_seconds"]) == (9, 7, 2.5)
    assert found["switches"] == [
        {
            "at": 1_001_000.0,
            "from": "speculative",
            "to": "baseline",
            "n": 9,
            "excess": 0,
            "reason": "high",
            "why": "load rose to 9 in flight",
        }
    ]
    assert found["why"] == "New requests go to baseline: load rose to 9 in flight."
    fast, plain = found["paths"]["speculative"], found["paths"]["baseline"]
    assert (fast["active"], fast["running"], fast["waiting"]) == (1, 4, 1)
    assert (fast["tokens_per_second"], fast["accept_length"]) == (50.0, 2.25)
    assert (fast["ttft_p50"], fast["ttft_p99"], fast["requests"], fast["tokens"]) == (0.25, 0.25, 1, 5)
    assert (plain["breaker"], plain["up"], plain["accept_length"]) == ("open", False, None)
    for lease in leases:
        lease.close(Outcome.OK)


def test_the_status_says_why_speculation_is_left(view: AdminView) -> None:
    pair = view.watched.pair
    for until, expected in ((60.0, "slow"), (None, None)):
        pair.harm = Harm(until=until, why=Sign.SLOW)
        assert status_view(view)["pairs"][0]["degraded"] == expected


def test_only_the_last_switches_are_shown(view: AdminView) -> None:
    for at in range(SWITCHES_SHOWN + 10):
        view.watched.pair.switches.append(
            Switch(float(at), Path.SPECULATIVE, Path.BASELINE, at, 0.0, SwitchReason.HIGH)
        )
    (found,) = status_view(view)["pairs"]
    assert [switch["n"] for switch in found["switches"]] == list(range(10, SWITCHES_SHOWN + 10))


def test_the_status_of_a_pair_with_one_engine(view: AdminView, clock: FakeClock) -> None:
    (found,) = status_view(replace(view, watched=watched(clock, Path.SPECULATIVE)))["pairs"]
    assert found["policy"] == {"kind": "single", "high": None, "low": None, "dwell": None, "smoothing": None}
    assert list(found["paths"]) == ["speculative"]


async def test_the_page_needs_nothing_from_elsewhere(admin: httpx.AsyncClient) -> None:
    answer = await admin.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    assert "/admin/status" in answer.text
    assert "//" not in answer.text
    assert set(re.findall(r'(?:src|href)="([^"]+)"', answer.text)) == {
        *("/static/page.css", "/static/page.js"),
        *("/metrics", "/admin/status", "/admin/decisions", "/openapi.json"),
    }
    for file in ("/static/page.css", "/static/page.js"):
        assert (await admin.get(file)).status_code == 200


@pytest.mark.parametrize(
    "target",
    ["/nope", "/metrics/", "/admin", "/docs", "/static/", "/static/../app.py", "//metrics", "/v1/models"],
)
async def test_unknown_routes(admin: httpx.AsyncClient, target: str) -> None:
    answer = await admin.request("GET", f"http://127.0.0.1:29000{target}")
    assert answer.status_code == 404
    assert answer.json() == {
        "error": {
            "message": "Unknown route.",
            "type": "invalid_request_error",
            "param": None,
            "code": "unknown_route",
        }
    }


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_nothing_can_be_changed(admin: httpx.AsyncClient, method: str) -> None:
    answer = await admin.request(method, "/admin/status")
    assert answer.status_code == 405
    assert answer.json()["error"]["code"] == "method_not_allowed"
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}


async def test_a_fault_is_shaped_like_the_others_and_says_nothing(view: AdminView) -> None:
    def fail() -> bool:
        raise RuntimeError("SECRET")

    async with _client(_app(replace(view, ready=fail))) as admin:
        answer = await admin.get("/readyz")
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert "SECRET" not in answer.text


@pytest.mark.parametrize("target", ["/", "/metrics", "/admin/status", "/nope"])
async def test_browsers_are_kept_out(admin: httpx.AsyncClient, target: str) -> None:
    for host in ("127.0.0.1", "evil.example"):
        answer = await admin.get(target, headers={"origin": "http://evil.example", "host": host})
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert not [name for name in answer.headers if name.startswith("access-control-")]


ALWAYS = [
    "localhost",
    "LOCALHOST:29000",
    "localhost.",
    "127.0.0.1",
    "127.0.0.1:1",
    "127.8.8.8",
    "[::1]",
    "[::1]:29000",
]
NEVER = [
    "evil.example",
    "evil.example:29000",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.0.0.1@evil.example",
    "localhost:port",
    "localhost:29000:1",
    "[::1",
    "[::1]x",
    "[127.0.0.1]",
    "[]",
    "",
    " ",
    "localhost/evil",
    "0x7f000001",
    "2130706433",
]


@pytest.mark.parametrize(
    ("bind", "allowed", "host", "status"),
    [
        *(("127.0.0.1", (), host, 200) for host in ALWAYS),
        *(("0.0.0.0", (), host, 200) for host in ALWAYS),
        *(("127.0.0.1", ("router",), host, 421) for host in NEVER),
        *(("0.0.0.0", ("router",), host, 421) for host in NEVER),
        ("127.0.0.1", ("router",), "router:29000", 200),
        ("127.0.0.1", ("Router",), "ROUTER", 200),
        ("127.0.0.1", ("router",), "router.evil.example", 421),
        ("127.0.0.1", ("10.1.2.3",), "10.1.2.3:29000", 200),
        ("127.0.0.1", ("fd00::1",), "[FD00:0::1]:29000", 200),
        ("127.0.0.1", ("[fd00::1]",), "[fd00::1]", 200),
        ("127.0.0.1", (), "10.1.2.3", 421),
        ("10.1.2.3", (), "10.1.2.3:29000", 200),
        ("10.1.2.3", (), "10.1.2.4:29000", 421),
        ("0.0.0.0", (), "10.1.2.3:29000", 200),
        ("::", (), "[fd00::1]:29000", 200),
        ("::", (), "10.1.2.3", 200),
        ("gpu-1", (), "gpu-1:29000", 200),
    ],
)
async def test_only_names_of_this_machine_are_answered(
    view: AdminView, bind: str, allowed: tuple[str, ...], host: str, status: int
) -> None:
    async with _client(_app(view, allowed=allowed, bind=bind), host) as admin:
        for target in ("/healthz", "/metrics"):
            answer = await admin.get(target)
            assert answer.status_code == status
            if status == 421:
                assert answer.json()["error"]["code"] == "host_not_allowed"


@pytest.mark.parametrize("hosts", [[], [b"localhost", b"evil.example"]])
async def test_a_request_has_one_host(hosts: list[bytes]) -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    app = HostCheck(Response("never"), "127.0.0.1", ())
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", host) for host in hosts]}
    await app(scope, receive, send)
    assert sent[0]["status"] == 421


def test_host_names() -> None:
    assert host_name(" Example.COM.:80 ") == "example.com"
    assert host_name("[0:0:0:0:0:0:0:1]:80") == "::1"
    assert host_name("::1") == "::1"
    assert host_name("example.com:٣") is None


async def _changed(request: Request) -> Response:
    return JSONResponse({"changed": True})


@pytest.mark.parametrize(
    ("token", "headers", "status"),
    [
        ("right", {"authorization": "Bearer right"}, 200),
        ("right", {"authorization": "bearer right"}, 200),
        ("right", {"authorization": "Bearer right", "origin": "http://evil.example"}, 200),
        ("right", {"authorization": "Bearer wrong"}, 401),
        ("right", {"authorization": "Bearer right2"}, 401),
        ("right", {"authorization": "Bearer "}, 401),
        ("right", {"authorization": "Basic right"}, 401),
        ("right", {"authorization": "right"}, 401),
        ("right", {}, 401),
        ("", {}, 200),
        ("", {"authorization": "Bearer whatever"}, 200),
        ("", {"origin": "http://127.0.0.1:29000"}, 200),
        ("", {"origin": "http://evil.example"}, 403),
        ("", {"origin": "http://127.0.0.1:8000"}, 403),
        ("", {"origin": "null"}, 403),
    ],
)
async def test_changes_need_the_token(token: str, headers: dict[str, str], status: int) -> None:
    route = Route("/change", require_token(token)(_changed), methods=["POST"])
    middleware = [Middleware(HostCheck, bind_host="127.0.0.1", allowed_hosts=())]
    async with _client(Starlette(routes=[route], middleware=middleware)) as client:
        answer = await client.post("/change", headers=headers)
    assert answer.status_code == status
    assert (answer.json() == {"changed": True}) == (status == 200)
    assert ("www-authenticate" in answer.headers) == (status == 401)


async def test_it_runs_on_a_real_socket(view: AdminView) -> None:
    config = uvicorn.Config(_app(view), port=0, lifespan="off", log_config=None, ws="none")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(10.0):
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"http://127.0.0.1:{port}/metrics")).status_code == 200
            rebound = await client.get(f"http://127.0.0.1:{port}/", headers={"host": f"evil.example:{port}"})
            assert rebound.status_code == 421
        server.should_exit = True
        await task
