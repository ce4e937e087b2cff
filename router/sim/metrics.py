"""The `/metrics` page of a simulated engine: SGLang's names, labels and lags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from router.sim.backend import Backend
from router.sim.histogram import Histogram

Labels = Mapping[str, str]


def render(backend: Backend) -> str:
    """The page in Prometheus' text format."""
    return "".join(_page(backend))


def _page(backend: Backend) -> Iterator[str]:
    tokenizer = {"engine_type": "unified", "model_name": backend.params.model}
    scheduler = tokenizer | {"moe_ep_rank": "0", "pp_rank": "0", "tp_rank": "0"}
    for name, help_text, value in _gauges(backend):
        yield from _family(name, help_text, "gauge", [(scheduler, value)])
    yield from _http(backend)
    yield from _histograms(backend, tokenizer)
    yield from _counters(backend, tokenizer, scheduler)


def _gauges(backend: Backend) -> Iterator[tuple[str, str, float]]:
    engine, params = backend.engine, backend.params
    snapshot, draft = engine.metrics_snapshot, engine.speed.draft_steps
    # SGLang sets these with a log line; before the first one even a speculative engine says 0.
    seen = bool(draft and snapshot.accept_length)
    used, cached = snapshot.used_tokens, len(engine.cache) * 16
    yield "max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", params.kv_tokens
    yield "context_len", "Maximum context length.", params.context_length
    yield "num_running_reqs", "The number of running requests.", snapshot.running
    yield "num_queue_reqs", "The number of requests in the waiting queue.", snapshot.waiting
    yield "num_grammar_queue_reqs", "The number of requests in the grammar waiting queue.", 0
    rate = snapshot.tokens_per_second * params.time_scale
    yield "gen_throughput", "The generation throughput (token/s).", rate
    yield "cache_hit_rate", "The prefix cache hit rate.", engine.counters.cache_hit_rate
    yield "token_usage", "The token usage.", min(1.0, used / params.kv_tokens)
    yield "full_token_usage", "The token usage for full attention layers.", min(1.0, used / params.kv_tokens)
    yield "num_used_tokens", "The number of used tokens.", used
    free = max(0, params.kv_tokens - used - cached)
    yield "kv_available_tokens", "Number of free token slots in the KV cache pool.", free
    evictable = "Number of evictable (radix-cached) token slots in the KV cache pool."
    yield "kv_evictable_tokens", evictable, cached
    yield "kv_used_tokens", "Number of actively used token slots in the KV cache pool.", used
    gain = snapshot.accept_length
    mean = "Mean acceptance length of speculative decoding (accepted drafts + bonus token per forward)."
    yield "spec_accept_length", mean, gain
    rate_text = "Speculative acceptance rate (`accepted drafts / proposed drafts` in batch)."
    yield "spec_accept_rate", rate_text, (gain - 1) / draft if seen else 0
    yield "spec_num_steps", "Currently active speculative_num_steps.", draft if seen else 0
    yield "spec_num_draft_tokens", "Currently active speculative_num_draft_tokens.", draft + 1 if seen else 0
    yield "utilization", "The utilization.", 0
    yield "new_token_ratio", "The new token ratio.", 0.7
    yield "num_retracted_reqs", "The number of retracted requests.", 0
    yield "num_paused_reqs", "The number of paused requests by async weight sync.", 0


def _http(backend: Backend) -> Iterator[str]:
    active = [(_endpoint(*key), float(count)) for key, count in backend.http_active.items()]
    yield from _family("http_requests_active", "Number of currently active HTTP requests", "gauge", active)
    requests = [(_endpoint(*key), float(count)) for key, count in backend.http_requests.items()]
    text = "Total number of HTTP requests by endpoint and method"
    yield from _family("http_requests_total", text, "counter", requests)
    responses = [
        (_endpoint(endpoint, method) | {"status_code": str(status)}, float(count))
        for (endpoint, method, status), count in backend.http_responses.items()
    ]
    text = "Total number of HTTP responses by endpoint and status code"
    yield from _family("http_responses_total", text, "counter", responses)


def _histograms(backend: Backend, labels: Labels) -> Iterator[str]:
    by_streaming = (
        ("time_to_first_token_seconds", "Histogram of time to first token in seconds.", backend.first_token),
        (
            "e2e_request_latency_seconds",
            "Histogram of End-to-end request latency in seconds",
            backend.latency,
        ),
    )
    for name, text, histograms in by_streaming:
        yield f"# HELP sglang:{name} {text}\n# TYPE sglang:{name} histogram\n"
        for streaming, histogram in histograms.items():
            if histogram.count:
                yield from _histogram(name, {**labels, "is_streaming": str(streaming).lower()}, histogram)
    name = "inter_token_latency_seconds"
    text = "Histogram of inter-token latency in seconds."
    yield f"# HELP sglang:{name} {text}\n# TYPE sglang:{name} histogram\n"
    yield from _histogram(name, labels, backend.per_token)


def _counters(backend: Backend, labels: Labels, scheduler: Labels) -> Iterator[str]:
    texts = {
        "prompt_tokens": "Number of prefill tokens processed.",
        "generation_tokens": "Number of generation tokens processed.",
        "requests": "Number of requests processed.",
    }
    for key, text in texts.items():
        name = f"num_{key}_total" if key == "requests" else f"{key}_total"
        rows = [
            ({**labels, "is_streaming": str(streaming).lower()}, float(totals[key]))
            for streaming, totals in backend.totals.items()
            if totals["requests"]
        ]
        yield from _family(name, text, "counter", rows)
    counters = backend.engine.counters
    modes = {
        "prefill_compute": counters.prefilled_tokens,
        "decode": counters.decoded_tokens,
        "prefill_cache": counters.cached_tokens,
    }
    rows = [({**scheduler, "mode": mode}, float(value)) for mode, value in modes.items()]
    text = "Total number of tokens processed. mode: prefill_compute, prefill_cache, decode."
    yield from _family("realtime_tokens_total", text, "counter", rows)
    cached = [({**labels, "cache_source": "device"}, float(counters.cached_tokens))]
    text = "Number of cached prompt tokens by source (device/host/storage)."
    yield from _family("cached_tokens_total", text, "counter", cached)
    if counters.aborted:
        aborted = [(labels, float(counters.aborted))]
        yield from _family("num_aborted_requests_total", "Number of requests aborted.", "counter", aborted)
    if backend.engine.speed.draft_steps:
        calls = [(labels, float(counters.verify_calls))]
        yield from _family("spec_verify_calls_total", "Number of speculative verify calls.", "counter", calls)


def _family(name: str, text: str, kind: str, rows: Sequence[tuple[Labels, float]]) -> Iterator[str]:
    yield f"# HELP sglang:{name} {text}\n# TYPE sglang:{name} {kind}\n"
    for labels, value in rows:
        yield _line(name, labels, value)


def _histogram(name: str, labels: Labels, histogram: Histogram) -> Iterator[str]:
    yield _line(f"{name}_sum", labels, histogram.sum)
    for bound, count in histogram.cumulative():
        yield _line(f"{name}_bucket", {**labels, "le": bound}, count)
    yield _line(f"{name}_count", labels, histogram.count)


def _line(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{key}="{_escape(labels[key])}"' for key in sorted(labels))
    return f"sglang:{name}{{{shown}}} {float(value)}\n"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _endpoint(endpoint: str, method: str) -> dict[str, str]:
    return {"endpoint": endpoint, "method": method}
