"""What a simulated engine tells about itself: models, model and server info, loads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from router.sim.arguments import server_arguments
from router.sim.backend import Backend

VERSION = "0.5.23"


def model_card(backend: Backend, created: int) -> dict[str, Any]:
    """One entry of /v1/models."""
    name = backend.params.model
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "sglang",
        "root": name,
        "parent": None,
        "max_model_len": backend.params.context_length,
    }


def model_info(backend: Backend) -> dict[str, Any]:
    """/model_info: the same for both engines of a pair."""
    name = backend.params.model
    return {
        "model_path": f"sim/{name}",
        "served_model_name": name,
        "tokenizer_path": f"sim/{name}",
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": "default",
        "load_format": "auto",
        "reasoning_parser": None,
        "tool_call_parser": None,
        "disaggregation_mode": "null",
        "has_image_understanding": False,
        "has_audio_understanding": False,
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
    }


def server_info(backend: Backend) -> dict[str, Any]:
    """/server_info: the arguments, flat, then the live state. As in SGLang the key is in it in clear."""
    params, engine = backend.params, backend.engine
    draft = engine.speed.draft_steps
    snapshot = engine.metrics_snapshot
    state: dict[str, Any] = {
        "effective_max_running_requests_per_dp": engine.speed.max_running_requests,
        "last_gen_throughput": snapshot.tokens_per_second * params.time_scale,
        "memory_usage": _memory(backend) | {"startup_available": 70.0, "token_capacity": params.kv_tokens},
    }
    mean = engine.counters.mean_accept_length
    if draft:
        state["speculative_num_steps"] = draft
        if mean is not None:
            state["avg_spec_accept_length"] = mean
    return {
        **server_arguments(params, engine.speed),
        "status": "draining" if backend.draining else "ready",
        "max_total_num_tokens": params.kv_tokens,
        "max_req_input_len": min(params.context_length, params.kv_tokens) - 6,
        "internal_states": [state],
        "version": VERSION,
        "frontend": "python",
    }


def loads(backend: Backend, include: str, now: float) -> dict[str, Any]:
    """/v1/loads. `include`: comma-separated sections, empty or `all` for everything; `now`: Unix time."""
    wanted = set(include.split(",")) if include else {"all"}
    entry = _core_load(backend)
    full = "all" in wanted
    if full or "memory" in wanted:
        entry["memory"] = _memory_loads(backend)
    mean = backend.engine.counters.mean_accept_length
    if (full or "spec" in wanted) and mean is not None:
        draft = backend.engine.speed.draft_steps
        entry["speculative"] = {"accept_length": round(mean, 4), "accept_rate": round((mean - 1) / draft, 4)}
    if full or "disagg" in wanted:
        entry["disaggregation"] = _NO_DISAGGREGATION
    if full or "queues" in wanted:
        waiting = backend.engine.loads_snapshot.waiting
        entry["queues"] = {"waiting": waiting, "grammar": 0, "paused": 0, "retracted": 0, "prealloc_ready": 0}
    return {
        "timestamp": datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds"),
        "version": VERSION,
        "accelerator": None,
        "num_accelerators": 1,
        "loads": [entry],
    }


def _core_load(backend: Backend) -> dict[str, Any]:
    engine, params = backend.engine, backend.params
    snapshot, counters = engine.loads_snapshot, engine.counters
    return {
        "timestamp": backend.driver.wall(snapshot.at),
        "dp_rank": 0,
        "num_running_reqs": snapshot.running,
        "num_waiting_reqs": snapshot.waiting,
        "num_waiting_uncached_tokens": snapshot.waiting_tokens,
        "num_used_tokens": snapshot.used_tokens,
        "num_total_tokens": snapshot.used_tokens + snapshot.waiting_tokens,
        "num_active_tokens": snapshot.used_tokens,
        "num_prealloc_ready_tokens": 0,
        "max_total_num_tokens": params.kv_tokens,
        "max_running_requests": engine.speed.max_running_requests,
        "token_usage": round(min(1.0, snapshot.used_tokens / params.kv_tokens), 4),
        "gen_throughput": round(snapshot.tokens_per_second * params.time_scale, 2),
        "cache_hit_rate": round(counters.cache_hit_rate, 4),
        "utilization": 0.0,
        "total_prefill_uncached_tokens": counters.prefilled_tokens,
        "total_prefill_busy_us": round(counters.prefill_seconds * 1e6),
        "decode_moments": None,
    }


def _memory(backend: Backend) -> dict[str, Any]:
    return {"weight": 7.42, "kvcache": round(backend.params.kv_tokens * 9e-5, 3)}


def _memory_loads(backend: Backend) -> dict[str, Any]:
    memory = _memory(backend)
    return {
        "weight_gb": memory["weight"],
        "kv_cache_gb": memory["kvcache"],
        "graph_gb": 0.0,
        "token_capacity": backend.params.kv_tokens,
    }


_NO_DISAGGREGATION = {
    "mode": "null",
    "prefill_bootstrap_queue_reqs": 0,
    "prefill_inflight_queue_reqs": 0,
    "decode_prealloc_queue_reqs": 0,
    "decode_transfer_queue_reqs": 0,
    "decode_retracted_queue_reqs": 0,
    "kv_transfer_speed_gb_s": 0.0,
    "kv_transfer_latency_ms": 0.0,
}
