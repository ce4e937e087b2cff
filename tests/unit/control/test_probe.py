"""What a probe makes of what it finds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from router.control.client import MAX_BODY, Endpoint, Unanswered, get, make_client
from router.control.probe import HEALTH_TIMEOUT_MIN, Prober
from router.core.health import Probe
from tests.unit.control.engine import Reply, ScriptedEngine, refused


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


def _prober(engine: ScriptedEngine, api_key: str | None = None) -> Prober:
    return Prober(engine.client(), Endpoint("http://engine-host:30001", api_key))


ANSWERS = [
    (200, Probe.OK),
    (204, Probe.FAILED),
    (302, Probe.FAILED),
    (401, Probe.FAILED),
    (500, Probe.FAILED),
    (refused(), Probe.REFUSED),
    (httpx.ConnectError("no such name"), Probe.FAILED),
    (httpx.ConnectTimeout("slow"), Probe.FAILED),
    (httpx.ReadTimeout("slow"), Probe.FAILED),
    (httpx.ReadError("reset"), Probe.FAILED),
    (httpx.RemoteProtocolError("garbage"), Probe.FAILED),
]


@pytest.mark.parametrize(("reply", "found"), [*ANSWERS, (503, Probe.NOT_READY)])
async def test_readiness(engine: ScriptedEngine, reply: Reply, found: Probe) -> None:
    engine.routes["/ready"] = reply
    assert await _prober(engine).ready(2.0) is found
    assert engine.asked() == ["/ready"]


@pytest.mark.parametrize(("reply", "found"), [*ANSWERS, (503, Probe.FAILED), (404, Probe.FAILED)])
async def test_deep(engine: ScriptedEngine, reply: Reply, found: Probe) -> None:
    engine.routes["/health"] = reply
    assert await _prober(engine).deep(25.0) is found
    assert engine.asked() == ["/health"]


@pytest.mark.parametrize(("reply", "found"), [*ANSWERS, (503, Probe.FAILED)])
async def test_an_engine_without_ready_is_asked_its_health(
    engine: ScriptedEngine, reply: Reply, found: Probe
) -> None:
    engine.routes |= {"/ready": 404, "/health": reply}
    assert await _prober(engine).ready(2.0) is found
    assert engine.asked() == ["/ready", "/health"]


async def test_it_is_remembered_until_the_engine_went_away(engine: ScriptedEngine) -> None:
    prober = _prober(engine)
    engine.routes["/ready"] = 404
    for expected in (["/ready", "/health"], ["/health"], ["/health"]):
        assert await prober.ready(2.0) is Probe.OK
        assert engine.asked() == expected
    engine.all_routes = refused()
    assert await prober.ready(2.0) is Probe.REFUSED
    engine.all_routes, engine.routes["/ready"] = None, 200
    engine.asked()
    assert await prober.ready(2.0) is Probe.OK
    assert engine.asked() == ["/ready"]


@pytest.mark.parametrize(("wanted", "given"), [(2.0, HEALTH_TIMEOUT_MIN), (5.0, 5.0)])
async def test_health_gets_more_than_the_second_it_sleeps(
    engine: ScriptedEngine, wanted: float, given: float
) -> None:
    engine.routes["/ready"] = 404
    await _prober(engine).ready(wanted)
    limits = [request.extensions["timeout"]["read"] for request in engine.requests]
    assert limits == [wanted, given]


async def test_a_silent_engine_is_given_up_in_time(engine: ScriptedEngine) -> None:
    async def never(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    engine.routes["/ready"] = never
    assert await asyncio.wait_for(_prober(engine).ready(0.05), 5.0) is Probe.FAILED


async def test_an_endless_answer_is_given_up(engine: ScriptedEngine) -> None:
    served = 0

    async def endless(request: httpx.Request) -> httpx.Response:
        async def body() -> AsyncIterator[bytes]:
            nonlocal served
            while True:
                served += 1
                yield b"x" * (MAX_BODY // 4)

        return httpx.Response(200, content=body())

    engine.routes["/metrics"] = endless
    async with engine.client() as client:
        with pytest.raises(Unanswered):
            await get(client, Endpoint("http://engine-host"), "/metrics", 5.0)
    assert served <= 6


async def test_the_key_goes_along_and_does_not_show(engine: ScriptedEngine) -> None:
    await _prober(engine, "SECRET").ready(2.0)
    await _prober(engine).ready(2.0)
    keys = [request.headers.get("authorization") for request in engine.requests]
    assert keys == ["Bearer SECRET", None]
    assert "SECRET" not in repr(Endpoint("http://engine-host", "SECRET"))


async def test_errors_do_not_name_the_engine(engine: ScriptedEngine) -> None:
    engine.all_routes = httpx.ConnectError("cannot reach engine-host")
    async with engine.client() as client:
        with pytest.raises(Unanswered) as caught:
            await get(client, Endpoint("http://engine-host"), "/ready", 1.0)
    assert "engine-host" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_the_environments_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with make_client() as client:
        assert not client.trust_env
        assert not client.follow_redirects
        assert client._mounts == {}
