"""A router whose engines are not what its configuration says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from router.core.health import Probe
from router.core.words import Path
from router.sim.server import SimulatedPair
from tests.cases.kit.client import RawResponse, chat_body, post, request_bytes
from tests.cases.kit.client import ask as ask_port
from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine, Script
from tests.cases.kit.sse import compact
from tests.cases.kit.waiting import until
from tests.integration.conftest import RouterFactory
from tests.support.leftovers import Errors
from tests.support.running import Running

SECRET = "sk-engine-secret"


def info(**fields: Any) -> Script:
    """A `/server_info` with both keys in clear, as SGLang's has."""
    said = {"served_model_name": "fake", "version": "0.5.23", "api_key": SECRET, "admin_api_key": SECRET}

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(compact({**said, **fields}))

    return script


async def faults(own: Running, *wanted: str) -> dict[str, Any]:
    """Wait until exactly these problems are known; returns the pair's status."""
    problems = own.router.services.pair
    await until(lambda: [each.fault.value for each in problems.problems] == list(wanted), 5.0, f"{wanted}")
    status = await own.status()
    assert [problem["fault"] for problem in status["problems"]] == list(wanted)
    ready = await ask_port(own.admin, request_bytes("GET", "/readyz", host=f"127.0.0.1:{own.admin}"))
    assert ready.json().get("problems", []) == [problem["text"] for problem in status["problems"]]
    assert (await own.get("/readyz")).json().get("problems", []) == list(wanted)
    assert (await own.metrics()).sum("wiring_problems") == len(wanted)
    return status


async def chat(own: Running) -> RawResponse:
    return await own.ask(post(chat_body(stream=False)))


async def stopped(own: Running, engine: FakeEngine) -> None:
    """Stop the speculative engine; its monitor has noticed."""
    engine.down(reset=True)
    monitor = own.router.monitors[0]
    await until(lambda: monitor._door is Probe.REFUSED, 5.0, "a refused probe")


async def told(own: Running) -> None:
    """Wait until both engines said what they are."""
    watched = own.router.wiring
    await until(lambda: all(watched.identity(path) for path in Path), 5.0, "two identities")


async def test_a_pair_that_is_right_has_no_problem_and_says_what_it_is(
    start: RouterFactory, sims: SimulatedPair
) -> None:
    own = await start(sims.speculative, sims.baseline, policy={"high": 8, "low": 3})
    await told(own)
    status = await faults(own)
    fast, plain = (status["paths"][path]["engine"] for path in ("speculative", "baseline"))
    assert (fast["speculative"], plain["speculative"]) == (True, False)
    assert fast["model"] == plain["model"] == "sim"
    assert fast["context_length"] == sims.params.context_length


@pytest.mark.parametrize(("kind", "left"), [(True, "speculative"), (False, "baseline")])
async def test_of_two_engines_of_one_kind_only_the_right_one_serves(
    start: RouterFactory, a: FakeEngine, b: FakeEngine, kind: bool, left: str, errors: Errors
) -> None:
    a.control["/server_info"] = b.control["/server_info"] = info(
        speculative_algorithm="EAGLE3" if kind else None
    )
    own = await start(a, b)
    await faults(own, "same_kind")
    assert {(await chat(own)).path for _ in range(3)} == {left}
    lines = [event for event in errors.events if event.get("fault") == "same_kind"]
    assert [(line["log_level"], line["event"]) for line in lines] == [("warning", "wiring problem")]
    assert (await own.get("/readyz")).status == 200


async def test_swapped_engines_serve_as_what_they_are(
    start: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    own = await start(b, a)
    await faults(own, "swapped")
    for _ in range(3):
        assert (await chat(own)).path == "baseline"
    assert (len(a.requests), len(b.requests)) == (0, 3), "the plain engine, by its true name"
    metrics = await own.metrics()
    assert metrics.sum("engine_up", path="speculative") == 0
    # Put right without a restart of the router: the engines change places.
    a.control["/server_info"], b.control["/server_info"] = (
        info(speculative_algorithm=None),
        info(speculative_algorithm="EAGLE3"),
    )
    for engine in (a, b):
        engine.down(reset=True)
    await until(lambda: not own.router.services.pair.serving(), 5.0, "an outage")
    for engine in (a, b):
        engine.up()
    await faults(own)
    await until(own.router.services.pair.serving, 5.0, "service")
    await until(lambda: own.router.services.pair.active_path is Path.SPECULATIVE, 5.0, "speculation")
    assert (await chat(own)).path == "speculative"
    assert len(b.requests) == 4


async def test_two_models_are_not_mixed(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    b.control["/server_info"] = info(served_model_name="other", speculative_algorithm=None)
    own = await start(a, b)
    await faults(own, "models_differ")
    assert (await chat(own)).path == "baseline"


async def test_what_is_odd_but_works_is_only_told(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    a.control["/server_info"] = info(
        speculative_algorithm="EAGLE3", context_length=4096, max_running_requests=48
    )
    b.control["/server_info"] = info(speculative_algorithm=None, context_length=8192)
    own = await start(a, b, policy={"high": 49, "low": 3})
    await faults(own, "contexts_differ", "high_above_limit")
    assert (await chat(own)).path == "speculative"


async def test_a_refused_key_takes_the_engine_out(start: RouterFactory) -> None:
    async with SimulatedPair(api_key=SECRET, time_scale=50, health_seconds=0.05) as pair:
        engines = {
            "speculative": {"url": pair.speculative_url, "api_key": "wrong"},
            "baseline": {"url": pair.baseline_url, "api_key": SECRET},
        }
        own = await start(None, pair.baseline, pairs=[{"placement": "shared", **engines}])
        await faults(own, "key_refused")
        answer = await chat(own)
        assert (answer.status, answer.path) == (200, "baseline")
        await own.quiet()


async def test_without_a_key_the_clients_own_is_left_to_do(start: RouterFactory) -> None:
    async with SimulatedPair(api_key=SECRET, time_scale=50, health_seconds=0.05) as pair:
        own = await start(pair.speculative, pair.baseline)
        await faults(own, "key_missing", "key_missing")
        data = post(chat_body(stream=False), headers=(("authorization", f"Bearer {SECRET}"),))
        assert (await own.ask(data)).status == 200
        await own.quiet()


async def test_an_engine_that_comes_back_as_another_is_noticed(
    router: Running, a: FakeEngine, b: FakeEngine
) -> None:
    await told(router)
    await stopped(router, a)
    a.control["/server_info"] = info(speculative_algorithm=None)
    a.up()
    await faults(router, "same_kind")
    assert (await chat(router)).path == "baseline"
    await stopped(router, a)
    a.control["/server_info"] = info(speculative_algorithm="EAGLE3")
    a.up()
    await faults(router)


async def test_the_keys_in_an_engines_account_go_nowhere(
    start: RouterFactory, a: FakeEngine, b: FakeEngine, errors: Errors
) -> None:
    a.control["/server_info"] = b.control["/server_info"] = info(speculative_algorithm=None)
    own = await start(a, b)
    status = await faults(own, "same_kind")
    assert SECRET not in str(status)
    assert SECRET not in str(errors.events)
    identity = own.router.wiring.identity(Path.BASELINE)
    assert identity is not None
    assert SECRET not in repr(replace(identity))
    metrics = request_bytes("GET", "/metrics", host=f"127.0.0.1:{own.admin}")
    assert SECRET.encode() not in (await ask_port(own.admin, metrics)).body
