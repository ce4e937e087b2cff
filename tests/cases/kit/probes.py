"""How a healthy SGLang answers probes; a test replaces single entries in `engine.control`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .sse import MODEL, compact

if TYPE_CHECKING:
    from .conn import EngineConn, RawRequest
    from .engine import Script


async def ready(conn: EngineConn, request: RawRequest) -> None:
    """/ready and /health: 200 without a body."""
    await conn.reply(b"", headers=())


async def models(conn: EngineConn, request: RawRequest) -> None:
    """/v1/models and /v1/models/{id}."""
    card = {"id": MODEL, "object": "model", "created": 1795964232, "owned_by": "sglang", "root": MODEL}
    card |= {"parent": None, "max_model_len": 4096}
    one = request.path.removeprefix("/v1/models").strip("/")
    if one and one != MODEL:
        error = {"message": "no such model", "type": "invalid_request_error", "param": "model"}
        await conn.reply(compact({"error": {**error, "code": "model_not_found"}}), "404 Not Found")
    else:
        await conn.reply(compact(card if one else {"object": "list", "data": [card]}))


async def loads(conn: EngineConn, request: RawRequest) -> None:
    """/v1/loads, core fields."""
    running = conn.engine.open_requests()
    load: dict[str, object] = {"timestamp": 1795964232.17, "dp_rank": 0, "num_running_reqs": running}
    load |= {"num_waiting_reqs": 0, "max_running_requests": 4096, "token_usage": 0.0}
    load |= {"gen_throughput": 0.0, "max_total_num_tokens": 16384, "num_used_tokens": 0}
    if conn.engine.speculative:
        load["speculative"] = {"accept_length": 2.1, "accept_rate": 0.5}
    await conn.reply(compact({"version": "0.5.23", "num_accelerators": 1, "loads": [load]}))


async def server_info(conn: EngineConn, request: RawRequest) -> None:
    """/server_info, the fields a router may look at."""
    state = {"effective_max_running_requests_per_dp": 4096, "last_gen_throughput": 0.0}
    algorithm = "EAGLE3" if conn.engine.speculative else None
    body = {"served_model_name": MODEL, "speculative_algorithm": algorithm, "version": "0.5.23"}
    await conn.reply(compact({**body, "internal_states": [state], "max_running_requests": 4096}))


async def model_info(conn: EngineConn, request: RawRequest) -> None:
    """/model_info."""
    await conn.reply(compact({"model_path": MODEL, "served_model_name": MODEL, "is_generation": True}))


async def metrics(conn: EngineConn, request: RawRequest) -> None:
    """/metrics, the series a router may look at."""
    labels = f'{{engine_type="unified",model_name="{MODEL}",tp_rank="0"}}'
    values = {"num_running_reqs": conn.engine.open_requests(), "num_queue_reqs": 0, "token_usage": 0.0}
    values |= {"gen_throughput": 0.0, "spec_accept_length": 2.1 if conn.engine.speculative else 0.0}
    rows = [f"# TYPE sglang:{name} gauge\nsglang:{name}{labels} {value}\n" for name, value in values.items()]
    total = "# TYPE sglang:generation_tokens_total counter\nsglang:generation_tokens_total"
    body = "".join(rows) + f"{total}{labels} 0.0\n"
    await conn.reply(body.encode(), headers=(("content-type", "text/plain; version=0.0.4"),))


DEFAULTS: Final[dict[str, Script]] = {
    "/ready": ready,
    "/health": ready,
    "/health_generate": ready,
    "/v1/models": models,
    "/v1/loads": loads,
    "/server_info": server_info,
    "/get_server_info": server_info,
    "/model_info": model_info,
    "/get_model_info": model_info,
    "/metrics": metrics,
}
