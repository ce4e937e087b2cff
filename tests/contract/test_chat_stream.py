"""Chat streams: every event's exact form, usage in three ways, several choices, log-probabilities, tools."""

from __future__ import annotations

import json
from typing import Any

from tests.cases.kit.client import ask, post
from tests.contract.spot import SECONDS, Spot, chat_body, events, masked, raw_events, text_of

HEAD = '{"id":"ID","object":"chat.completion.chunk","created":0,"model":"tiny","choices":['
ROLE = (
    HEAD + '{"index":0,"delta":{"reasoning_content":null,"role":"assistant","content":""},'
    '"logprobs":null,"finish_reason":null,"matched_stop":null}]}'
)
TEXT = (
    HEAD + '{"index":0,"delta":{"reasoning_content":null,"content":"TEXT"},'
    '"logprobs":null,"finish_reason":null,"matched_stop":null}]'
)
FINISH = (
    HEAD + '{"index":0,"delta":{"reasoning_content":null},'
    '"logprobs":null,"finish_reason":"length","matched_stop":null}]}'
)
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]


def usage(completion: int) -> str:
    return (
        f'"usage":{{"prompt_tokens":1,"total_tokens":1,"completion_tokens":{completion},'
        '"prompt_tokens_details":null,"reasoning_tokens":0,"completion_tokens_details":null}'
    )


async def test_every_byte_but_ids_times_and_words(spot: Spot) -> None:
    found = [masked(event) for event in raw_events(await spot.chat(max_tokens=5, stream=True))]
    assert found[0] == f"data: {ROLE}"
    assert found[-1] == f"data: {FINISH}"
    # Tokens that come together share an event, on any engine.
    assert 1 <= len(found[1:-1]) <= 5
    assert set(found[1:-1]) == {f"data: {TEXT}}}"}


async def test_one_event_per_chunk_and_the_recorded_headers(direct: Spot) -> None:
    answer = await direct.chat(max_tokens=5, stream=True)
    pieces = [len(event) + 2 for event in raw_events(answer)] + [len(b"data: [DONE]\n\n")]
    assert answer.reader.chunk_sizes == [*pieces, 0]
    names = [name for name, _ in answer.head.headers]
    assert names == ["date", "server", "content-type", "vary", "Transfer-Encoding"]
    assert (answer.head.get("server"), answer.head.get("vary")) == ("uvicorn", "Origin")


async def test_usage_comes_last_when_asked_for(spot: Spot) -> None:
    answer = await spot.chat(max_tokens=6, stream=True, stream_options={"include_usage": True})
    found = [masked(event) for event in raw_events(answer)]
    assert found[-1] == f"data: {HEAD}],{usage(6)}}}"
    assert found[-2] == f"data: {FINISH}"
    assert not any('"usage"' in event for event in found[:-1])


async def test_continuous_usage_counts_up_and_spares_role_and_finish(spot: Spot) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    answer = await spot.chat(max_tokens=6, stream=True, stream_options=options)
    found = events(answer)
    assert "usage" not in found[0]
    assert "usage" not in found[-2]
    counts = [event["usage"]["completion_tokens"] for event in found[1:-2]]
    assert counts == sorted(set(counts))
    assert counts[-1] == found[-1]["usage"]["completion_tokens"] == 6
    assert masked(raw_events(answer)[1]) == f"data: {TEXT},{usage(counts[0])}}}"


async def test_a_stream_says_what_the_whole_answer_says(spot: Spot) -> None:
    whole = (await spot.chat(max_tokens=24)).json()
    stream = events(await spot.chat(max_tokens=24, stream=True))
    assert text_of(stream) == whole["choices"][0]["message"]["content"]


async def test_two_choices_have_ids_of_their_own_and_one_usage(spot: Spot) -> None:
    answer = await spot.chat(max_tokens=4, n=2, stream=True, stream_options={"include_usage": True})
    *spoken, first, second, total = events(answer)
    ids = {(event["choices"][0]["index"], event["id"]) for event in spoken}
    assert len(ids) == len({rid for _, rid in ids}) == 2
    assert text_of(spoken, 0)
    assert text_of(spoken, 1)
    ends = [event["choices"][0] for event in (first, second)]
    assert sorted((end["index"], end["finish_reason"]) for end in ends) == [(0, "length"), (1, "length")]
    assert total["choices"] == []
    assert total["usage"]["completion_tokens"] == 8


async def test_logprobs_of_a_token_and_its_alternatives(spot: Spot) -> None:
    answer = await spot.chat(max_tokens=3, stream=True, logprobs=True, top_logprobs=2)
    tokens = []
    for event in events(answer)[1:-1]:
        choice = event["choices"][0]
        assert list(choice["logprobs"]) == ["content"]
        said = choice["logprobs"]["content"]
        assert "".join(entry["token"] for entry in said) == choice["delta"]["content"]
        tokens += said
    assert len(tokens) == 3
    for token in tokens:
        assert list(token) == ["token", "bytes", "logprob", "top_logprobs"]
        assert bytes(token["bytes"]).decode() == token["token"]
        assert token["logprob"] < 0
        assert [list(other) for other in token["top_logprobs"]] == [["token", "bytes", "logprob"]] * 2
        assert token["top_logprobs"][0]["token"] == token["token"], "greedy takes the likeliest"


async def test_tools_count_as_prompt_and_leave_the_form_alone(spot: Spot) -> None:
    options = {"include_usage": True}
    plain = events(await spot.chat(max_tokens=3, stream=True, stream_options=options))
    answer = await spot.chat(max_tokens=3, stream=True, stream_options=options, tools=TOOLS)
    assert masked(raw_events(answer)[0]) == f"data: {ROLE}"
    more = events(answer)[-1]["usage"]["prompt_tokens"] - plain[-1]["usage"]["prompt_tokens"]
    assert more > 10


async def test_a_stop_string_ends_it(spot: Spot) -> None:
    whole = (await spot.chat(max_tokens=30)).json()["choices"][0]["message"]["content"]
    stop = whole[8:12]
    *_, last = events(await spot.chat(max_tokens=30, stream=True, stop=[stop]))
    assert (last["choices"][0]["finish_reason"], last["choices"][0]["matched_stop"]) == ("stop", stop)


async def test_an_id_of_the_clients_names_the_answer(spot: Spot) -> None:
    found = events(await spot.chat(max_tokens=2, stream=True, rid="named-by-the-client"))
    assert {event["id"] for event in found} == {"named-by-the-client"}


async def test_an_http_1_0_client_gets_it_unframed(direct: Spot) -> None:
    request = post(json.dumps(chat_body(max_tokens=1, stream=True)).encode())
    bare = await ask(direct.port, request.replace(b"HTTP/1.1", b"HTTP/1.0", 1), SECONDS)
    framed = await direct.chat(max_tokens=1, stream=True)
    assert bare.head.get("transfer-encoding") is None
    assert masked(bare.body) == masked(framed.body)
