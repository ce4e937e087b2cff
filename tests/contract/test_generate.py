"""The native /generate: cumulative streams whose headers come at once."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from router.core.words import Path
from tests.cases.kit.client import CHAT
from tests.contract.occupy import occupied
from tests.contract.spot import SECONDS, Spot, chat_body, events, generate_body

META = ["id", "finish_reason", "prompt_tokens", "weight_version", "num_retractions"]
SPECULATION = [
    "spec_accept_rate",
    "spec_accept_length",
    "spec_num_correct_drafts",
    "spec_num_proposed_drafts",
    "spec_verify_ct",
    "spec_correct_drafts_histogram",
]
# Comes and goes between SGLang's own events.
SOMETIMES = "response_sent_to_client_ts"


def keys(meta: dict[str, Any]) -> list[str]:
    return [key for key in meta if key != SOMETIMES]


async def test_text_and_ids_are_cumulative(spot: Spot) -> None:
    found = events(await spot.post("/generate", generate_body(9, stream=True)))
    for before, after in itertools.pairwise(found):
        assert after["text"].startswith(before["text"])
        assert after["output_ids"][: len(before["output_ids"])] == before["output_ids"]
        assert before["meta_info"]["finish_reason"] is None
    last = found[-1]
    assert len(last["output_ids"]) == last["meta_info"]["completion_tokens"] == 9
    assert last["meta_info"]["finish_reason"] == {"type": "length", "length": 9}
    whole = (await spot.post("/generate", generate_body(9))).json()
    assert (whole["text"], whole["output_ids"]) == (last["text"], last["output_ids"])


async def test_the_fields_in_order(spot: Spot) -> None:
    whole = (await spot.post("/generate", generate_body(4))).json()
    first, *_, last = events(await spot.post("/generate", generate_body(4, stream=True)))
    assert list(whole) == list(first) == ["text", "output_ids", "meta_info"]
    early = [
        *META,
        "storage_prefetch_wait",
        "storage_staging_wait",
        "forward_entry_time",
        "prefill_finished_time",
        "queue_time",
        "reasoning_tokens",
        "completion_tokens",
        "cached_tokens",
    ]
    assert keys(first["meta_info"]) == [*early, "cached_tokens_details", "dp_rank"]
    late = ["weight_versions", "cached_tokens_details", "dp_rank", "e2e_latency"]
    late += SPECULATION if spot.path is Path.SPECULATIVE else []
    late += ["request_received_ts", "first_token_latency", "api_server_dispatch_finish_ts"]
    late += ["request_finished_ts", "decode_throughput"]
    assert keys(last["meta_info"]) == keys(whole["meta_info"]) == [*early, *late]


async def test_choices_and_prompts_come_as_a_list(spot: Spot) -> None:
    body = generate_body(2)
    body["sampling_params"]["n"] = 2
    assert len((await spot.post("/generate", body)).json()) == 2
    several = (await spot.post("/generate", generate_body(2) | {"text": ["hello", "brown"]})).json()
    assert [len(answer["output_ids"]) for answer in several] == [2, 2]
    stream = events(await spot.post("/generate", body | {"stream": True}))
    assert {event["index"] for event in stream} == {0, 1}
    assert all(list(event)[-1] == "index" for event in stream)


async def test_logprobs(spot: Spot) -> None:
    body = generate_body(3, return_logprob=True, top_logprobs_num=2)
    meta = (await spot.post("/generate", body)).json()["meta_info"]
    assert meta["input_token_logprobs"] == []
    rows = meta["output_token_logprobs"]
    assert len(rows) == meta["output_token_logprobs_length"] == 3
    assert all(value < 0 and isinstance(token, int) and text is None for value, token, text in rows)
    assert [len(row) for row in meta["output_top_logprobs"]] == [2, 2, 2]


@pytest.mark.parametrize("target", [CHAT, "/generate"])
async def test_when_the_headers_come(direct: Spot, target: str) -> None:
    """While every slot is taken, a stream of /generate has begun; one of chat begins with its first token."""
    body = chat_body(max_tokens=2, stream=True) if target == CHAT else generate_body(2, stream=True)
    async with occupied(direct) as held:
        client = await direct.open(target, body)
        await held.waits(1)
        if target == CHAT:
            assert not client.responses
        else:
            await client.started(within=SECONDS)
            assert not client.responses[0].body
        await held.let_go()
        answer = await client.response(within=SECONDS)
        client.fin()
    assert len(events(answer)) >= 2
