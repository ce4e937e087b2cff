"""Answers that come in one piece, and the streams of /v1/completions."""

from __future__ import annotations

import json

import pytest

from tests.cases.kit.client import End
from tests.contract.spot import Spot, events, masked, raw_events, refusal
from tests.contract.test_chat_stream import TOOLS, usage

COMPLETIONS = "/v1/completions"
CHOICE = (
    '{"index":0,"message":{"role":"assistant","content":"TEXT","reasoning_content":null},'
    '"logprobs":null,"finish_reason":"length","matched_stop":null}'
)
TEXT_HEAD = '{"id":"ID","object":"text_completion","created":0,"model":"tiny","choices":['
PROMPT = {"model": "tiny", "prompt": "hello", "temperature": 0, "ignore_eos": True}


def metadata(tokens: int) -> str:
    versions = f'[{{"version":"default","start":0,"end":{tokens}}}]'
    return f'"metadata":{{"weight_version":"default","weight_versions":{versions}}}'


async def test_every_byte_but_ids_times_and_words(spot: Spot) -> None:
    answer = await spot.chat(max_tokens=5)
    assert (answer.status, answer.end) == (200, End.COMPLETE)
    head = '{"id":"ID","object":"chat.completion","created":0,"model":"tiny"'
    assert masked(answer.body) == f'{head},"choices":[{CHOICE}],{usage(5)},{metadata(5)}}}'
    assert answer.head.get("content-type") == "application/json"


async def test_headers(direct: Spot) -> None:
    answer = await direct.chat(max_tokens=1)
    names = [name for name, _ in answer.head.headers]
    assert names == ["date", "server", "content-length", "content-type", "vary"]


async def test_two_choices_share_one_usage_and_the_metadata_of_the_first(spot: Spot) -> None:
    body = (await spot.chat(max_tokens=4, n=2)).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1]
    assert body["usage"]["completion_tokens"] == 8
    assert body["metadata"]["weight_versions"][0]["end"] == 4


@pytest.mark.parametrize("top", [None, 2])
async def test_logprobs(spot: Spot, top: int | None) -> None:
    fields = {} if top is None else {"top_logprobs": top}
    choice = (await spot.chat(max_tokens=3, logprobs=True, **fields)).json()["choices"][0]
    content = choice["logprobs"]["content"]
    assert "".join(entry["token"] for entry in content) == choice["message"]["content"]
    assert [len(entry["top_logprobs"]) for entry in content] == [top or 0] * 3


@pytest.mark.parametrize("model", ["another", None])
async def test_the_model_is_not_checked(spot: Spot, model: str | None) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    answer = await spot.post("/v1/chat/completions", body | ({"model": model} if model else {}))
    assert answer.json()["model"] == model or (model is None and answer.json()["model"] == "default")


@pytest.mark.parametrize(
    "fields",
    [{"foo": 1}, {"stream_options": {"include_usage": True}}, {"tools": TOOLS}, {"max_completion_tokens": 2}],
    ids=["unknown field", "stream_options without stream", "tools", "max_completion_tokens"],
)
async def test_fields_that_change_nothing(spot: Spot, fields: dict[str, object]) -> None:
    answer = await spot.chat(max_tokens=2, **fields)
    assert answer.status == 200
    assert answer.json()["usage"]["completion_tokens"] == 2


async def test_no_tokens_is_an_answer(spot: Spot) -> None:
    choice = (await spot.chat(max_tokens=0)).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "length")


async def test_a_completion(spot: Spot) -> None:
    answer = await spot.post(COMPLETIONS, PROMPT | {"max_tokens": 3})
    choice = '{"index":0,"text":"TEXT","logprobs":null,"finish_reason":"length","matched_stop":null}'
    assert masked(answer.body) == f"{TEXT_HEAD}{choice}],{usage(3)},{metadata(3)}}}"


async def test_a_completion_stream_finishes_on_its_last_text(spot: Spot) -> None:
    body = PROMPT | {"max_tokens": 3, "stream": True, "stream_options": {"include_usage": True}}
    *texts, last, total = [masked(event) for event in raw_events(await spot.post(COMPLETIONS, body))]
    text = '{"index":0,"text":"TEXT","logprobs":null,"finish_reason":%s,"matched_stop":null}],"usage":null}'
    assert set(texts) <= {f"data: {TEXT_HEAD}{text % 'null'}"}
    assert last == f"data: {TEXT_HEAD}" + text % '"length"'
    counts = '"usage":{"prompt_tokens":1,"total_tokens":1,"completion_tokens":3,"reasoning_tokens":0}}'
    assert total == f"data: {TEXT_HEAD}],{counts}"


async def test_continuous_usage_of_a_completion_has_the_details(spot: Spot) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = PROMPT | {"max_tokens": 3, "stream": True, "stream_options": options}
    *texts, total = events(await spot.post(COMPLETIONS, body))
    assert [list(event["usage"])[3] for event in texts] == ["prompt_tokens_details"] * len(texts)
    assert "prompt_tokens_details" not in total["usage"]
    assert texts[-1]["usage"]["completion_tokens"] == total["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_logprobs_of_a_completion(spot: Spot, *, stream: bool) -> None:
    answer = await spot.post(COMPLETIONS, PROMPT | {"max_tokens": 2, "logprobs": 2, "stream": stream})
    choices = [event["choices"][0] for event in (events(answer) if stream else [answer.json()])]
    tokens = [token for choice in choices for token in choice["logprobs"]["tokens"]]
    assert "".join(tokens) == "".join(choice["text"] for choice in choices)
    assert len(tokens) == 2
    for choice in choices:
        assert list(choice["logprobs"]) == ["text_offset", "token_logprobs", "tokens", "top_logprobs"]
        assert all(len(others) == 2 for others in choice["logprobs"]["top_logprobs"])


async def test_several_prompts_are_several_choices(spot: Spot) -> None:
    body = (await spot.post(COMPLETIONS, PROMPT | {"prompt": ["hello", "brown"], "max_tokens": 2})).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1]
    assert body["usage"]["completion_tokens"] == 4


async def test_embeddings_are_refused(spot: Spot) -> None:
    body = refusal(await spot.post("/v1/embeddings", {"model": "tiny", "input": "x"}), 400)
    assert (body["object"], body["type"], body["code"]) == ("error", "BadRequestError", 400)
    assert "does not appear to be an embedding model" in body["message"]


async def test_messages_in_the_other_dialect(spot: Spot) -> None:
    turn = [{"role": "user", "content": "hello"}]
    body = {"model": "tiny", "max_tokens": 3, "messages": turn, "temperature": 0}
    whole = (await spot.post("/v1/messages", body)).json()
    assert list(whole) == ["id", "type", "role", "content", "model", "stop_reason", "usage"]
    assert list(whole["usage"]) == ["input_tokens", "output_tokens"]
    stream = bytes((await spot.post("/v1/messages", body | {"stream": True})).body).decode()
    named = [event.split("\n") for event in stream.split("\n\n") if event]
    kinds = [json.loads(data.removeprefix("data: "))["type"] for _, data in named]
    assert [f"event: {kind}" for kind in kinds] == [name for name, _ in named]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
