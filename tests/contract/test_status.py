"""What an engine tells of itself: the routes that the router polls, and those that it relays."""

from __future__ import annotations

import re
import time

from router.control.parse import read_gauges, read_identity, read_loads
from router.core.arguments import SPECULATION, SPEED
from router.core.words import Path
from tests.cases.kit.client import CHAT
from tests.contract.occupy import LONG, holds, until
from tests.contract.spot import SECONDS, Spot, chat_body, refusal
from tests.sglang_cpu.flags import CONTEXT, MODEL, POOL, RUNNING
from tests.support.running import Running

CORE = [
    "timestamp",
    "dp_rank",
    "num_running_reqs",
    "num_waiting_reqs",
    "num_waiting_uncached_tokens",
    "num_used_tokens",
    "num_total_tokens",
    "num_active_tokens",
    "num_prealloc_ready_tokens",
    "max_total_num_tokens",
    "max_running_requests",
    "token_usage",
    "gen_throughput",
    "cache_hit_rate",
    "utilization",
    "total_prefill_uncached_tokens",
    "total_prefill_busy_us",
    "decode_moments",
]
GAUGES = ["num_running_reqs", "num_queue_reqs", "token_usage", "gen_throughput", "spec_accept_length"]
COUNTERS = ["prompt_tokens_total", "generation_tokens_total", "num_requests_total", "realtime_tokens_total"]
HISTOGRAMS = ["time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds"]


async def test_loads(direct: Spot) -> None:
    await direct.chat(max_tokens=2)
    answer = (await direct.get("/v1/loads?include=core")).json()
    assert list(answer) == ["timestamp", "version", "accelerator", "num_accelerators", "loads"]
    assert answer["version"] == "0.5.23"
    (load,) = answer["loads"]
    assert list(load) == CORE
    assert (load["max_total_num_tokens"], load["max_running_requests"]) == (POOL, RUNNING)
    assert abs(load["timestamp"] - time.time()) < SECONDS
    assert (load["num_running_reqs"], load["num_waiting_reqs"]) == (0, 0)
    (full,) = (await direct.get("/v1/loads")).json()["loads"]
    assert list(full)[: len(CORE)] == CORE
    assert {"memory", "disaggregation", "queues"} <= set(full)


async def test_only_speculation_tells_its_accept_length(direct: Spot) -> None:
    await direct.chat(max_tokens=200)
    (load,) = (await direct.get("/v1/loads")).json()["loads"]
    info = (await direct.get("/server_info")).json()
    if direct.path is Path.SPECULATIVE:
        assert list(load["speculative"]) == ["accept_length", "accept_rate"]
        assert 1.0 <= load["speculative"]["accept_length"] <= 4.0
        assert info["speculative_algorithm"] == "EAGLE3"
        assert info["internal_states"][0]["avg_spec_accept_length"] >= 1.0
    else:
        assert "speculative" not in load
        assert info["speculative_algorithm"] is None
        assert "avg_spec_accept_length" not in info["internal_states"][0]


async def test_server_and_model_info(direct: Spot) -> None:
    info = (await direct.get("/server_info")).json()
    assert (info["version"], info["served_model_name"]) == ("0.5.23", MODEL)
    assert (info["max_running_requests"], info["context_length"]) == (RUNNING, CONTEXT)
    assert info["max_total_num_tokens"] == POOL
    # Some tokens short of the context or the pool.
    assert 0 < info["max_req_input_len"] < CONTEXT
    old = (await direct.get("/get_server_info")).json()
    assert old["version"] == info["version"]
    model = (await direct.get("/model_info")).json()
    assert (model["served_model_name"], model["is_generation"]) == (MODEL, True)
    assert (await direct.get("/get_model_info")).json() == model


async def test_metrics_that_the_router_reads(direct: Spot) -> None:
    await direct.chat(max_tokens=60, stream=True)
    answer = await direct.get("/metrics")
    assert (answer.head.get("content-type") or "").startswith("text/plain; version=0.0.4")
    page = bytes(answer.body).decode()
    scheduler = f'{{engine_type="unified",model_name="{MODEL}",moe_ep_rank="0",pp_rank="0",tp_rank="0"}} '
    for name in GAUGES:
        assert f"sglang:{name}{scheduler}" in page, name
    for name in COUNTERS:
        assert re.search(rf"^sglang:{name}{{", page, re.MULTILINE), name
    for name in HISTOGRAMS:
        assert re.search(rf"^sglang:{name}_bucket{{", page, re.MULTILINE), name
    modes = set(re.findall(r'^sglang:realtime_tokens_total{[^}]*mode="(\w+)"', page, re.MULTILINE))
    assert {"prefill_compute", "decode"} <= modes
    speculation = bool(re.search(r"^sglang:spec_verify_calls_total{", page, re.MULTILINE))
    assert speculation is (direct.path is Path.SPECULATIVE)


async def test_the_routers_own_parsers_understand_it(direct: Spot) -> None:
    async def tokens() -> float:
        return read_gauges(bytes((await direct.get("/metrics")).body)).generation_tokens or 0.0

    before = await tokens()
    await direct.chat(max_tokens=120)

    async def counted() -> bool:
        return await tokens() >= before + 100

    await until(counted, "a token counter that moves")
    gauges = read_gauges(bytes((await direct.get("/metrics")).body))
    assert (gauges.accept_length is not None) is (direct.path is Path.SPECULATIVE)
    loads = read_loads(bytes((await direct.get("/v1/loads?include=core")).body))
    assert (loads.running, loads.waiting) == (0, 0)
    assert loads.token_usage is not None
    info = read_identity(bytes((await direct.get("/server_info")).body))
    assert info is not None
    assert info.context_length == CONTEXT
    assert (info.version, info.speculative) == ("0.5.23", direct.path is Path.SPECULATIVE)


async def test_the_identity_has_the_draft_and_every_argument_that_decides_the_speed(direct: Spot) -> None:
    """A name that this version does not have would be compared with nothing, for ever."""
    info = read_identity(bytes((await direct.get("/server_info")).body))
    assert info is not None
    speculative = direct.path is Path.SPECULATIVE
    assert list(info.arguments) == [*SPEED, *(SPECULATION if speculative else ())]
    assert (info.draft is not None) is speculative
    assert info.arguments["max_running_requests"] == RUNNING


async def test_loads_follow_a_running_request(direct: Spot) -> None:
    client = await direct.open(CHAT, chat_body(max_tokens=LONG, stream=True))
    await client.body(300, within=SECONDS)

    async def seen() -> bool:
        return await holds(direct.engine) == (1, 0)

    await until(seen, "one running request")
    client.fin()


async def test_health_takes_a_second_and_ready_none(direct: Spot) -> None:
    for target in ("/ready", "/ping"):
        answer = await direct.get(target)
        assert (answer.status, bytes(answer.body)) == (200, b"")
        assert [name for name, _ in answer.head.headers] == ["date", "server", "content-length", "vary"]
    started = time.monotonic()
    assert (await direct.get("/health")).status == 200
    assert time.monotonic() - started >= 1.0


async def test_models(spot: Spot) -> None:
    card = {
        "id": MODEL,
        "object": "model",
        "owned_by": "sglang",
        "root": MODEL,
        "parent": None,
        "max_model_len": CONTEXT,
    }
    answer = (await spot.get("/v1/models")).json()
    assert [entry.pop("created") > 0 for entry in answer["data"]] == [True]
    assert answer == {"object": "list", "data": [card]}
    assert (await spot.get(f"/v1/models/{MODEL}")).json()["id"] == MODEL
    assert refusal(await spot.get("/v1/models/nope"), 404)["error"]["param"] == "model"


async def test_tokenize_there_and_back(spot: Spot) -> None:
    tokens = (await spot.post("/v1/tokenize", {"model": MODEL, "prompt": " the world"})).json()
    assert list(tokens) == ["tokens", "count", "max_model_len"]
    assert tokens["count"] == len(tokens["tokens"])
    text = (await spot.post("/v1/detokenize", {"model": MODEL, "tokens": tokens["tokens"]})).json()
    assert text["text"] == " the world"


async def test_flush_cache(direct: Spot) -> None:
    answer = await direct.post("/flush_cache", b"")
    assert answer.status == 200
    assert bytes(answer.body).startswith(b"Cache flushed.\n")


async def test_an_idle_connection_is_closed_after_five_seconds(direct: Spot) -> None:
    client = await direct.open("/v1/tokenize", {"model": MODEL, "prompt": "x"})
    await client.response(within=SECONDS)
    started = time.monotonic()

    async def closed() -> bool:
        return client.peer_gone_at is not None

    await until(closed, "a closed connection", 30.0)
    assert time.monotonic() - started > 4.0


async def test_the_router_shows_what_the_engines_say(router: Running) -> None:
    spot = Spot(None, router.data, Path.SPECULATIVE)  # type: ignore[arg-type]
    await spot.chat(max_tokens=200)

    async def shown() -> bool:
        metrics = await router.metrics()
        return metrics.sum("engine_up") == 2 and metrics.sum("accept_length") >= 1.0

    await until(shown, "both engines up and an accept length")
    status = await router.status()
    assert {path: status["paths"][path]["up"] for path in status["paths"]} == {
        "speculative": True,
        "baseline": True,
    }
