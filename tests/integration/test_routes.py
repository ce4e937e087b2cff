"""Which routes reach an engine, and how everything else is refused."""

from __future__ import annotations

import json

import pytest

from router.core.routes import ROUTES, Handling
from router.core.words import Path
from tests.cases.kit.client import RawClient, RawResponse, assert_openai_error, chat_body, request_bytes
from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine
from tests.cases.kit.sse import MODEL
from tests.integration.conftest import RouterFactory
from tests.support.running import Running, paths_up

PROXIED = [
    "/v1/chat/completions",
    "/v1/completions",
    "/generate",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/score",
    "/v1/classify",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses",
    "/tokenize",
    "/detokenize",
    "/v1/tokenize",
    "/v1/detokenize",
]
SIDE = ["/v1/models", f"/v1/models/{MODEL}", "/model_info", "/get_model_info"]

# SGLang 0.5.23's routes that change its state or tell its secrets; many of them take GET as well as POST.
_CONTROL = """
/flush_cache /abort_request /pause_generation /continue_generation /release_memory_occupation
/resume_memory_occupation /update_weights_from_disk /update_weights_from_tensor
/update_weights_from_distributed /update_weights_from_ipc /begin_weight_update /end_weight_update
/update_weight_version /init_weights_update_group /destroy_weights_update_group
/init_weights_send_group_for_remote_instance /send_weights_to_remote_instance
/remote_instance_transfer_engine_info /get_remote_instance_transfer_engine_info /get_weights_by_name
/weights_checker /set_internal_state /slow_down /freeze_gc /start_profile /stop_profile /set_trace_level
/configure_logging /start_expert_distribution_record /stop_expert_distribution_record
/dump_expert_distribution_record /load_lora_adapter /load_lora_adapter_from_tensors /unload_lora_adapter
/add_external_corpus /remove_external_corpus /list_external_corpora /hicache/storage-backend
/hicache/storage-backend/clear /pd_role_switch /scale_elastic_ep /dumper/start /open_session /close_session
/server_info /get_server_info /v1/loads /get_load /metrics /openapi.json /docs /health_generate /ready /ping
/get_hicache_l3_cache_layout /is_scaling_elastic_ep /encode /classify /invocations /vertex_generate
/parse_function_call /separate_reasoning /api/chat /api/generate /api/tags /api/show
/v1/audio/transcriptions /v1/realtime /v1/responses/1 /v1/responses/resp_1/input_items
/v1/decisions /v1/systemone / /admin/status
"""
CONTROL = _CONTROL.split()


def spellings(path: str) -> list[str]:
    """Ways in which a sloppy router and an engine might read a path differently."""
    first = path[1:2]
    return [
        path,
        path + "/",
        "/" + path,
        path + "?x=1",
        path.upper(),
        f"/%{ord(first or '/'):02x}{path[2:]}",
        "/" + path.replace("/", "%2F"),
        "/v1/models/.." + path,
        "/v1/models/../.." + path,
        "/v1/models/%2e%2e" + path,
        "/v1/chat/completions/.." + path,
        "/v1/chat/completions;" + path,
        "/v1/chat/completions%00" + path,
        "/." + path,
        path + "%20",
        path + ";x",
        "http://engine.test" + path,
        "/healthz/.." + path,
    ]


def came_from_clients(*engines: FakeEngine) -> list[str]:
    """Targets of requests that the router passed on: its own probes carry no request id."""
    return [
        request.target
        for engine in engines
        for request in (*engine.requests, *engine.probes)
        if request.head.get("x-request-id")
    ]


def test_the_lists_here_are_the_routers() -> None:
    served = {route.decode(): found.handling for route, found in ROUTES.items()}
    assert {route for route, kind in served.items() if kind is Handling.PROXY} == set(PROXIED)
    assert {route for route, kind in served.items() if kind is Handling.SIDE} == set(SIDE) - {SIDE[1]}
    assert not set(CONTROL) & set(served)


async def test_proxied_routes_reach_the_engine_byte_for_byte(router: Running, a: FakeEngine) -> None:
    body = chat_body(stream=False, odd="\u00fc", **{"weird key": [1, 2.50, None]})
    for target in PROXIED:
        query = target + "?version=2&a=%20b"
        response = await router.ask(
            request_bytes("POST", query, (("content-type", "application/json"), ("x-own", "1")), body)
        )
        assert response.status == 200, target
        assert a.requests[-1].target == query
        assert bytes(a.requests[-1].body) == body
        assert a.requests[-1].head.get("x-own") == "1"
        assert a.requests[-1].head.get("host") == f"127.0.0.1:{a.port}"
        assert a.requests[-1].head.get("x-request-id") == response.head.get("x-request-id")
    assert len(a.requests) == len(PROXIED)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_control_routes_are_unknown_in_every_spelling(
    router: Running, a: FakeEngine, b: FakeEngine, method: str
) -> None:
    body = b'{"rid": ""}' if method == "POST" else None
    tried = 0
    async with await RawClient.connect(router.data) as client:
        for path in CONTROL:
            for spelling in spellings(path):
                response = await client.ask(request_bytes(method, spelling, body=body))
                assert_unknown(response, spelling)
                tried += 1
    assert tried > 1000
    assert came_from_clients(a, b) == []
    metrics = await router.metrics()
    assert metrics.sum("rejected_total", reason="route") == tried
    assert "flush_cache" not in metrics.text, "no stranger's path becomes a label"


def assert_unknown(response: RawResponse, target: str) -> None:
    """Refused as unknown, without repeating what was asked."""
    error = assert_openai_error(response, 404)
    assert error["code"] == "unknown_route", target
    assert len(target) < 2 or target not in error["message"]


async def test_methods_that_a_route_does_not_take(router: Running, a: FakeEngine, b: FakeEngine) -> None:
    for target in (*PROXIED, *SIDE, "/healthz", "/readyz"):
        right = "POST" if target in PROXIED else "GET"
        for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} - {right}:
            response = await router.ask(request_bytes(method, target, body=b""))
            assert assert_openai_error(response, 405)["code"] == "method_not_allowed", (method, target)
            assert response.head.get("allow") == right
    assert came_from_clients(a, b) == []


async def test_odd_request_targets(router: Running, a: FakeEngine, b: FakeEngine) -> None:
    """Forms that are no plain path: refused, and the connection of the next client still works."""
    for target in ("*", "engine.test:443", "//evil.example/flush_cache", "/v1/models/" + "x" * 300):
        for method in ("GET", "CONNECT"):
            async with await RawClient.connect(router.data) as client:
                response = await client.ask(request_bytes(method, target))
                assert_openai_error(response, {400, 404})
    assert came_from_clients(a, b) == []
    assert (await router.get("/v1/models")).status == 200


async def test_side_routes_with_engines_coming_and_going(
    router: Running, a: FakeEngine, b: FakeEngine
) -> None:
    for target in SIDE:
        response = await router.get(target)
        assert (response.status, response.path) == (200, "speculative"), target
        assert response.head.get("x-request-id")
    assert (await router.get("/v1/models/other")).status == 404, "the engine's own answer"
    a.down(reset=True)
    for target in SIDE:
        response = await router.get(target)
        assert (response.status, response.path) == (200, "baseline"), target
    b.down(reset=True)
    for target in SIDE:
        response = await router.get(target)
        assert assert_openai_error(response, 503)["code"] == "no_engine", target
        assert 1 <= int(response.head.get("retry-after") or 0) <= 30
    assert router.ledger.opened == 0, "a model list is not a request in flight"


async def test_side_routes_pass_over_an_engine_in_trouble(router: Running, a: FakeEngine) -> None:
    async def failing(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(b"{}", "500 Internal Server Error")

    a.control["/v1/models"] = failing
    response = await router.get("/v1/models")
    assert (response.status, response.path) == (200, "baseline")


async def test_health_and_readiness(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    a.down()
    b.down()
    router = await start(a, b, ready=False)
    for target in ("/healthz", "/health"):
        assert (await router.get(target)).status == 200
    assert (await router.get("/readyz")).status == 503
    b.up()
    await paths_up(router, Path.BASELINE)
    response = await router.get("/readyz")
    assert (response.status, json.loads(response.body)) == (200, {"status": "ready"})
    b.down(reset=True)
    await paths_up(router)
    assert (await router.get("/readyz")).status == 503
    assert (await router.get("/health")).status == 200
