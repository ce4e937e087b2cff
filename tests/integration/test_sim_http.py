"""Routes and refusals of the simulated engine against a real one's recorded bodies."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path as FilePath
from typing import Any

import pytest

from router.sim import SimulatedPair
from tests.integration.sim_client import Answer, ask, chat

RECORDED = FilePath(__file__).parents[1] / "unit" / "sim" / "recorded"
CHAT = "/v1/chat/completions"


@pytest.fixture
async def pair() -> AsyncIterator[SimulatedPair]:
    async with SimulatedPair(
        model="smol", time_scale=50, context_length=4096, health_seconds=0.05, kv_tokens=16384
    ) as pair:
        yield pair


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def stable(text: str) -> str:
    """Without what differs from one server to the next: times, file paths, line numbers."""
    text = re.sub(r'"created":\d+', '"created":0', text)
    return re.sub(r'File \\"[^"]*\\", line \d+', "File", text)


def header_names(answer: Answer) -> list[str]:
    return [name for name, _ in answer.headers]


@pytest.mark.parametrize(
    ("path", "status", "name"),
    [
        ("/v1/models", 200, "models.json"),
        ("/v1/models/smol", 200, "model.json"),
        ("/v1/models/nope", 404, "model_unknown.json"),
        ("/", 200, "root.json"),
        ("/nope", 404, "not_found.json"),
        ("/get_load", 404, "not_found.json"),
        (CHAT, 405, "method_not_allowed.json"),
    ],
)
async def test_get(pair: SimulatedPair, path: str, status: int, name: str) -> None:
    answer = await ask(pair.baseline.port, "GET", path)
    assert (answer.status, stable(answer.body.decode())) == (status, stable(recorded(name)))
    expected = ["date", "server", "content-length", "content-type", "vary", "Connection"]
    if status == 405:
        expected.insert(2, "allow")
    assert header_names(answer) == expected
    assert dict(answer.headers)["server"] == "uvicorn"
    assert dict(answer.headers)["vary"] == "Origin"


@pytest.mark.parametrize("path", ["/ready", "/ping", "/health", "/health_generate"])
async def test_health_routes_have_no_body(pair: SimulatedPair, path: str) -> None:
    answer = await ask(pair.baseline.port, "GET", path)
    assert (answer.status, answer.body) == (200, b"")
    assert header_names(answer) == ["date", "server", "content-length", "vary", "Connection"]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"model": "smol", "messages": [', "bad_json.json"),
        (b"", "empty_body.json"),
        ({"model": "smol"}, "missing_messages.json"),
        ({"model": "smol", "messages": []}, "empty_messages.json"),
        (chat("hi", temperature="hot"), "temperature_type.json"),
        (chat("hi", temperature=-1), "temperature_range.json"),
        (chat("hi", top_p=0), "top_p.json"),
        (chat("hi", max_tokens=-5), "max_tokens_negative.json"),
        (chat("hi", max_tokens=100000), "max_tokens_over.json"),
        (chat("hi", max_tokens=100000, stream=True), "max_tokens_over.json"),
        (chat("word " * 6000, max_tokens=1), "prompt_too_long.json"),
        (chat("word " * 6000, max_tokens=1, stream=True), "prompt_too_long.json"),
        (chat("hi", n=0), "n_zero.json"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}
                ]
            },
            "image.json",
        ),
    ],
)
async def test_chat_refusals(pair: SimulatedPair, body: dict[str, Any] | bytes, name: str) -> None:
    answer = await ask(pair.baseline.port, "POST", CHAT, body)
    assert (answer.status, stable(answer.body.decode())) == (400, stable(recorded(name)))


@pytest.mark.parametrize("content_type", ["text/plain", ""])
async def test_only_json_is_read(pair: SimulatedPair, content_type: str) -> None:
    answer = await ask(pair.baseline.port, "POST", CHAT, chat(), {"Content-Type": content_type})
    assert (answer.status, answer.body.decode()) == (400, recorded("no_content_type.json"))


async def test_a_bad_role_names_the_good_ones(pair: SimulatedPair) -> None:
    answer = await ask(pair.baseline.port, "POST", CHAT, {"messages": [{"role": "wizard", "content": "x"}]})
    assert answer.status == 400
    assert answer.json["type"] == "Bad Request"
    assert "'assistant'" in answer.json["message"]


@pytest.mark.parametrize(
    ("body", "status", "name"),
    [
        ({"sampling_params": {"max_new_tokens": 3}}, 400, "generate_no_text.json"),
        ({"text": "word " * 6000}, 400, "generate_too_long.json"),
        ({"text": "word " * 6000, "stream": True}, 200, "generate_too_long_stream.txt"),
    ],
)
async def test_generate_refusals(pair: SimulatedPair, body: dict[str, Any], status: int, name: str) -> None:
    answer = await ask(pair.baseline.port, "POST", "/generate", body)
    assert (answer.status, answer.body.decode()) == (status, recorded(name))


async def test_a_speculative_engine_keeps_a_few_tokens_of_the_context(pair: SimulatedPair) -> None:
    body = chat("word " * 3969, max_tokens=96)
    accepted = await ask(pair.baseline.port, "POST", CHAT, body)
    refused = await ask(pair.speculative.port, "POST", CHAT, body)
    assert (accepted.status, refused.status) == (200, 400)
    assert "maximum context length of 4096 tokens" in refused.json["message"]


async def test_a_prompt_over_the_pool_is_an_http_error_or_a_streams_first_event() -> None:
    async with SimulatedPair(context_length=4096, kv_tokens=1600, time_scale=50) as pair:
        body = chat("word " * 1680, max_tokens=1)
        plain = await ask(pair.baseline.port, "POST", CHAT, body)
        stream = await ask(pair.baseline.port, "POST", CHAT, body | {"stream": True})
    text = (
        "Input length (1711 tokens) exceeds the maximum allowed length (1594 tokens). "
        "Use a shorter input or enable --allow-auto-truncate."
    )
    assert (plain.status, plain.json["message"], plain.json["code"]) == (400, text, 400)
    first, done = stream.events
    assert stream.status == 200
    assert json.loads(first.removeprefix(b"data: "))["error"] == {
        "object": "error",
        "message": text,
        "type": "BAD_REQUEST",
        "param": None,
        "code": 400,
    }
    assert done == b"data: [DONE]"


async def test_embeddings_are_refused_as_a_generating_model_does(pair: SimulatedPair) -> None:
    answer = await ask(pair.baseline.port, "POST", "/v1/embeddings", {"model": "smol", "input": "x"})
    assert (answer.status, answer.json["object"], answer.json["code"]) == (400, "error", 400)


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_tokenize_and_back(pair: SimulatedPair, prefix: str) -> None:
    tokens = await ask(pair.baseline.port, "POST", f"{prefix}/tokenize", {"prompt": " the house"})
    assert list(tokens.json) == list(json.loads(recorded("tokenize.json")))
    assert tokens.json["count"] == len(tokens.json["tokens"]) == 2
    text = await ask(pair.baseline.port, "POST", f"{prefix}/detokenize", {"tokens": tokens.json["tokens"]})
    assert text.json == {"text": " the house"}


async def test_abort_without_a_body(pair: SimulatedPair) -> None:
    answer = await ask(pair.baseline.port, "POST", "/abort_request", b"")
    assert (answer.status, stable(answer.body.decode())) == (400, stable(recorded("abort_empty.json")))


async def test_abort_of_an_unknown_request(pair: SimulatedPair) -> None:
    answer = await ask(pair.baseline.port, "POST", "/abort_request", {"rid": "nothing"})
    assert (answer.status, answer.body) == (200, b"")


async def test_flush_cache(pair: SimulatedPair) -> None:
    answer = await ask(pair.baseline.port, "POST", "/flush_cache")
    assert (answer.status, answer.body.decode()) == (200, recorded("flush_cache.txt"))
    assert "content-type" not in header_names(answer)


@pytest.mark.parametrize(
    ("query", "name"),
    [("", "loads.json"), ("?include=all", "loads.json"), ("?include=core", "loads_core.json")],
)
async def test_loads_have_the_recorded_fields_in_order(pair: SimulatedPair, query: str, name: str) -> None:
    answer = await ask(pair.baseline.port, "GET", f"/v1/loads{query}")
    theirs = json.loads(recorded(name))
    assert list(answer.json) == list(theirs)
    ours, reference = answer.json["loads"][0], theirs["loads"][0]
    assert list(ours) == list(reference)
    for section in ("memory", "disaggregation", "queues"):
        if section in reference:
            assert list(ours[section]) == list(reference[section])


async def test_only_a_speculative_engine_reports_speculation(pair: SimulatedPair) -> None:
    body = chat(max_tokens=40, ignore_eos=True)
    for engine in (pair.speculative, pair.baseline):
        await ask(engine.port, "POST", CHAT, body)
    loads = [
        (await ask(engine.port, "GET", "/v1/loads")).json["loads"][0]
        for engine in (pair.speculative, pair.baseline)
    ]
    assert 1 <= loads[0]["speculative"]["accept_length"] <= 4
    assert "speculative" not in loads[1]
    infos = [(await ask(e.port, "GET", "/server_info")).json for e in (pair.speculative, pair.baseline)]
    assert [info["speculative_algorithm"] for info in infos] == ["EAGLE3", None]
    assert 1 <= infos[0]["internal_states"][0]["avg_spec_accept_length"] <= 4
    assert "avg_spec_accept_length" not in infos[1]["internal_states"][0]
    assert (await ask(pair.speculative.port, "GET", "/get_server_info")).json["version"] == infos[0][
        "version"
    ]
    models = [(await ask(e.port, "GET", "/model_info")).json for e in (pair.speculative, pair.baseline)]
    assert models[0] == models[1] == (await ask(pair.baseline.port, "GET", "/get_model_info")).json


async def test_metrics_have_the_names_and_labels(pair: SimulatedPair) -> None:
    port = pair.speculative.port
    await ask(port, "POST", CHAT, chat(max_tokens=300, ignore_eos=True, stream=True))
    page = (await ask(port, "GET", "/metrics")).body.decode()
    scheduler = '{engine_type="unified",model_name="smol",moe_ep_rank="0",pp_rank="0",tp_rank="0"}'
    for name in ("num_running_reqs", "num_queue_reqs", "token_usage", "gen_throughput", "spec_accept_length"):
        assert f"sglang:{name}{scheduler} " in page
    streaming = '{engine_type="unified",is_streaming="true",model_name="smol"}'
    assert f"sglang:generation_tokens_total{streaming} 300.0\n" in page
    assert f"sglang:num_requests_total{streaming} 1.0\n" in page
    assert f"sglang:time_to_first_token_seconds_count{streaming} 1\n" in page.replace(".0\n", "\n")
    found = re.search(rf"sglang:spec_accept_length{re.escape(scheduler)} (\S+)", page)
    assert found is not None
    assert 2 < float(found[1]) < 4
    assert "num_aborted_requests_total" not in page
    assert (
        'sglang:http_responses_total{endpoint="/v1/chat/completions",method="POST",status_code="200"} 1.0'
        in page
    )


async def test_without_the_key_only_the_open_routes_answer() -> None:
    async with SimulatedPair(api_key="secret", health_seconds=0.01, time_scale=50) as pair:
        port = pair.baseline.port
        for path in ("/health", "/ready", "/metrics"):
            assert (await ask(port, "GET", path)).status == 200
        for path in ("/v1/models", "/v1/loads", "/server_info", "/model_info"):
            assert (await ask(port, "GET", path)).status == 401
        refused = await ask(port, "POST", CHAT, chat(), {"Authorization": "Bearer wrong"})
        assert (refused.status, refused.body) == (401, b'{"error":"Unauthorized"}')
        assert header_names(refused) == ["date", "server", "content-length", "content-type", "Connection"]
        accepted = await ask(port, "POST", CHAT, chat(max_tokens=2), {"Authorization": "Bearer secret"})
        assert accepted.status == 200
