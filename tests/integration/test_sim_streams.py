"""Streams of the simulated engine: framing, timing, overload, aborts, clients that leave."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import pairwise
from typing import Any

import pytest

from router.core.words import Path
from router.sim import SimulatedEngine, SimulatedPair
from tests.integration.sim_client import LIMIT, Answer, ask, chat, decode, encode, until

CHAT = "/v1/chat/completions"
USAGE = {"include_usage": True}


def payloads(answer: Answer) -> list[dict[str, Any]]:
    assert answer.events[-1] == b"data: [DONE]"
    return [json.loads(event.removeprefix(b"data: ")) for event in answer.events[:-1]]


def live(engine: SimulatedEngine) -> int:
    return engine.backend.engine.running + engine.backend.engine.waiting


@pytest.mark.parametrize("path", list(Path))
async def test_one_event_per_write_and_no_comments(path: Path) -> None:
    async with SimulatedPair(time_scale=20) as pair:
        answer = await ask(
            pair.engine(path).port, "POST", CHAT, chat(max_tokens=20, stream=True, stream_options=USAGE)
        )
    assert answer.status == 200
    assert dict(answer.headers)["content-type"] == "text/event-stream; charset=utf-8"
    names = [name for name, _ in answer.headers]
    assert names == ["date", "server", "content-type", "vary", "Transfer-Encoding", "Connection"]
    for chunk in answer.chunks:
        assert chunk.startswith(b"data: ")
        assert chunk.endswith(b"\n\n")
        assert chunk.count(b"\n") == 2
    role, *contents, finish, usage = payloads(answer)
    assert role["choices"][0]["delta"] == {"reasoning_content": None, "role": "assistant", "content": ""}
    assert all("content" in event["choices"][0]["delta"] for event in contents)
    assert finish["choices"][0]["delta"] == {"reasoning_content": None}
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 20
    assert all("usage" not in event for event in (role, *contents, finish))


async def test_speculative_deltas_carry_several_tokens_and_the_text_is_the_same() -> None:
    async with SimulatedPair(time_scale=20) as pair:
        body = chat(max_tokens=60, temperature=0, ignore_eos=True, stream=True)
        answers = {path: await ask(pair.engine(path).port, "POST", CHAT, body) for path in Path}
    texts, counts = {}, {}
    for path, answer in answers.items():
        deltas = [event["choices"][0]["delta"].get("content", "") for event in payloads(answer)]
        texts[path] = "".join(deltas)
        counts[path] = len(deltas)
    assert texts[Path.SPECULATIVE] == texts[Path.BASELINE]
    assert counts[Path.BASELINE] == 60 + 2
    assert counts[Path.SPECULATIVE] < 45


async def test_an_http_1_0_client_gets_unframed_events() -> None:
    async with SimulatedPair(time_scale=20) as pair:
        payload = json.dumps(chat(max_tokens=2, ignore_eos=True, stream=True)).encode()
        request = encode("POST", CHAT, payload).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        async with asyncio.timeout(LIMIT):
            reader, writer = await asyncio.open_connection("127.0.0.1", pair.baseline.port)
            writer.write(request)
            answer = decode(await reader.read())
            writer.close()
            await writer.wait_closed()
    assert [name for name, _ in answer.headers] == ["date", "server", "content-type", "vary", "Connection"]
    assert len(payloads(answer)) == 4


async def test_two_choices_have_their_own_ids_and_one_usage() -> None:
    async with SimulatedPair(time_scale=20) as pair:
        body = chat(n=2, max_tokens=5, ignore_eos=True, stream=True, stream_options=USAGE)
        events = payloads(await ask(pair.baseline.port, "POST", CHAT, body))
    spoken = [event for event in events[:-3] if event["choices"]]
    ids = {(event["choices"][0]["index"], event["id"]) for event in spoken}
    assert len(ids) == len({rid for _, rid in ids}) == 2
    assert [event["choices"][0]["finish_reason"] for event in events[-3:-1]] == ["length", "length"]
    assert events[-1]["usage"]["completion_tokens"] == 10


async def test_chat_headers_wait_for_the_first_token_and_generate_headers_do_not() -> None:
    # The prefill of 4,000 tokens takes 0.6 s in this profile.
    async with SimulatedPair(profile="seed", context_length=100_000) as pair:
        text = "word " * 4000
        native: dict[str, Any] = {"text": text, "stream": True, "sampling_params": {"max_new_tokens": 1}}
        waits = {}
        for path, body in ((CHAT, chat(text, max_tokens=1, stream=True)), ("/generate", native)):
            reader, writer = await asyncio.open_connection("127.0.0.1", pair.baseline.port)
            started = time.monotonic()
            writer.write(encode("POST", path, json.dumps(body).encode()))
            async with asyncio.timeout(LIMIT):
                await reader.readuntil(b"\r\n\r\n")
            waits[path] = time.monotonic() - started
            writer.close()
            await writer.wait_closed()
    assert waits[CHAT] > 0.5
    assert waits["/generate"] < waits[CHAT] / 2


async def test_a_full_queue_is_a_503_or_a_streams_first_event() -> None:
    async with SimulatedPair(max_running_requests=1, max_queued_requests=1) as pair:
        engine = pair.baseline
        held = [
            asyncio.create_task(ask(engine.port, "POST", CHAT, chat(max_tokens=5000, ignore_eos=True)))
            for _ in range(2)
        ]
        await until(lambda: live(engine) == 2)
        plain = await ask(engine.port, "POST", CHAT, chat())
        stream = await ask(engine.port, "POST", CHAT, chat(stream=True, stream_options=USAGE))
        completion = await ask(engine.port, "POST", "/v1/completions", {"prompt": "x", "stream": True})
        pair.baseline.backend.abort(None)
        await asyncio.gather(*held)
    assert (plain.status, plain.body) == (
        503,
        b'{"object":"error","message":"The request queue is full.","type":"503","param":null,"code":503}',
    )
    error, usage = payloads(stream)
    assert stream.status == 200
    assert stream.events[0] == (
        b'data: {"error": {"object": "error", "message": "The request queue is full.", '
        b'"type": "SERVICE_UNAVAILABLE", "param": null, "code": 503}}'
    )
    assert error["error"]["code"] == 503
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 0
    assert (completion.status, len(payloads(completion))) == (200, 1)


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_abort_by_id_ends_it_with_its_partial_text(streaming: bool) -> None:
    async with SimulatedPair() as pair:
        body = chat(rid="abort-me-7", max_tokens=5000, ignore_eos=True, stream=streaming)
        held = asyncio.create_task(ask(pair.baseline.port, "POST", CHAT, body))
        await until(lambda: pair.baseline.backend.engine.used_tokens > 40)
        assert (await ask(pair.baseline.port, "POST", "/abort_request", {"rid": "abort-me"})).status == 200
        assert live(pair.baseline) == 1
        assert (await ask(pair.baseline.port, "POST", "/abort_request", {"rid": "abort-me-7"})).body == b""
        answer = await held
        page = (await ask(pair.baseline.port, "GET", "/metrics")).body.decode()
        assert live(pair.baseline) == 0
    if streaming:
        last = payloads(answer)[-1]
        assert last["id"] == "abort-me-7"
        assert last["choices"][0] | {"index": 0} == {
            "index": 0,
            "delta": {"reasoning_content": None},
            "logprobs": None,
            "finish_reason": "abort",
            "matched_stop": None,
        }
    else:
        assert answer.json["id"] == "abort-me-7"
        assert answer.json["choices"][0]["finish_reason"] == "abort"
        assert answer.json["choices"][0]["message"]["content"]
    assert 'sglang:num_aborted_requests_total{engine_type="unified",model_name="sim"} 1.0' in page


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_id_in_flight_is_refused_and_free_again_afterwards(streaming: bool) -> None:
    async with SimulatedPair() as pair:
        port = pair.baseline.port
        held = asyncio.create_task(ask(port, "POST", CHAT, chat(rid="dup", max_tokens=5000, ignore_eos=True)))
        await until(lambda: live(pair.baseline) == 1)
        refused = await ask(port, "POST", CHAT, chat(rid="dup", stream=streaming))
        assert (refused.status, refused.json["message"]) == (400, "Duplicate request ID detected: dup")
        await ask(port, "POST", "/abort_request", {"abort_all": True})
        await held
        assert (await ask(port, "POST", CHAT, chat(rid="dup", max_tokens=1))).json["id"] == "dup"


async def leave(
    port: int, body: dict[str, Any], engine: SimulatedEngine, *, read: bool
) -> tuple[float, float]:
    """Seconds from asking and from leaving until the engine has let go of a request whose client left."""
    asked = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(encode("POST", CHAT, json.dumps(body).encode()))
    await until(lambda: live(engine) == 1)
    if read:
        async with asyncio.timeout(LIMIT):
            await reader.readuntil(b"\r\n\r\n")
    writer.close()
    left = time.monotonic()
    await until(lambda: live(engine) == 0)
    return time.monotonic() - asked, time.monotonic() - left


async def test_a_stream_whose_client_left_is_aborted_at_once() -> None:
    async with SimulatedPair(disconnect_poll=5) as pair:
        for path in Path:
            engine = pair.engine(path)
            body = chat(max_tokens=5000, ignore_eos=True, stream=True)
            _, waited = await leave(engine.port, body, engine, read=True)
            assert waited < 2
            assert engine.backend.engine.counters.aborted == 1


async def test_a_stream_whose_client_left_in_the_queue_is_aborted_too() -> None:
    async with SimulatedPair(profile="seed", disconnect_poll=5) as pair:
        body = chat("word " * 20_000, max_tokens=5000, stream=True)
        _, waited = await leave(pair.baseline.port, body, pair.baseline, read=False)
        assert waited < 2


async def test_a_plain_request_whose_client_left_runs_on_until_the_next_look() -> None:
    async with SimulatedPair(disconnect_poll=0.5) as pair:
        body = chat(max_tokens=5000, ignore_eos=True)
        since_asked, _ = await leave(pair.baseline.port, body, pair.baseline, read=False)
    assert since_asked >= 0.49


async def test_generate_streams_are_cumulative() -> None:
    async with SimulatedPair(time_scale=20) as pair:
        body = {"text": "x", "stream": True, "sampling_params": {"max_new_tokens": 9, "ignore_eos": True}}
        events = payloads(await ask(pair.speculative.port, "POST", "/generate", body))
    for before, after in pairwise(events):
        assert after["text"].startswith(before["text"])
        assert after["output_ids"][: len(before["output_ids"])] == before["output_ids"]
    meta = events[-1]["meta_info"]
    assert meta["finish_reason"] == {"type": "length", "length": 9}
    assert meta["spec_verify_ct"] > 0
    assert events[0]["meta_info"]["finish_reason"] is None


async def test_messages_speak_the_other_dialect() -> None:
    async with SimulatedPair(time_scale=20) as pair:
        body = chat(max_tokens=4, stop_sequences=["zzz"])
        whole = await ask(pair.baseline.port, "POST", "/v1/messages", body)
        stream = await ask(pair.baseline.port, "POST", "/v1/messages", body | {"stream": True})
        long = await ask(pair.baseline.port, "POST", "/v1/messages", chat(max_tokens=99_999))
        count = await ask(pair.baseline.port, "POST", "/v1/messages/count_tokens", chat("Say hi"))
    assert (long.status, long.json["type"], long.json["error"]["type"]) == (
        400,
        "error",
        "invalid_request_error",
    )
    assert count.json == {"input_tokens": 32}
    assert whole.json["type"] == "message"
    assert whole.json["content"][0]["type"] == "text"
    names = [event.split(b"\n")[0].removeprefix(b"event: ").decode() for event in stream.events]
    assert names[:2] == ["message_start", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]


async def test_a_stop_string_ends_the_answer() -> None:
    async with SimulatedPair(time_scale=20) as pair:
        body = chat(max_tokens=400, temperature=0, ignore_eos=True)
        whole = (await ask(pair.baseline.port, "POST", CHAT, body)).json["choices"][0]["message"]["content"]
        stop = whole[100:108]
        cut = (await ask(pair.speculative.port, "POST", CHAT, body | {"stop": [stop]})).json["choices"][0]
    assert cut["message"]["content"] == whole[: whole.index(stop)]
    assert (cut["finish_reason"], cut["matched_stop"]) == ("stop", stop)
