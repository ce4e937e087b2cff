"""What an engine refuses, in which of its many forms: all that needs no small limit to be reached."""

from __future__ import annotations

import pytest

from tests.cases.kit.client import CHAT
from tests.contract.spot import Body, Spot, chat_body, events, generate_body, refusal, stream_error

LONG = "word " * 3000
BAD_SCHEMA = {"type": "json_schema", "json_schema": {"name": "c", "schema": {"type": "nonsense"}}}


def without(body: Body, field: str) -> Body:
    return {key: value for key, value in body.items() if key != field}


INVALID = [
    (without(chat_body(), "messages"), "Field required"),
    (chat_body() | {"messages": "x"}, "Input should be a valid list"),
    (chat_body() | {"temperature": "hot"}, "Input should be a valid number"),
    (chat_body() | {"messages": [{"role": "wizard", "content": "x"}]}, "'role' must be one of"),
    (chat_body(tools=[{"type": "function"}]), "Field required"),
    (chat_body(stream=None), "Input should be a valid boolean"),
    (chat_body(rid=5), "Input should be a valid string"),
]
OUT_OF_RANGE: list[tuple[Body, str, str]] = [
    ({"messages": []}, "BadRequestError", "Messages cannot be empty."),
    ({"temperature": -1}, "BadRequestError", "temperature must be a non-negative finite number"),
    ({"top_p": 0}, "BadRequestError", "top_p must be in (0, 1]"),
    ({"max_tokens": -5}, "BadRequestError", "max_new_tokens must be at least 0, got -5."),
    ({"max_tokens": 100_000}, "BadRequestError", "max_completion_tokens is too large: 100000."),
    ({"max_tokens": 2040}, "BadRequestError", "maximum context length of 2048 tokens"),
    ({"messages": [{"role": "user", "content": LONG}]}, "BadRequestError", "is longer than the model's"),
    ({"tool_choice": "required"}, "BadRequestError", "Tools cannot be empty"),
]


async def test_a_body_that_does_not_validate(spot: Spot, subtests: pytest.Subtests) -> None:
    for body, words in INVALID:
        with subtests.test(words, body=str(body)[:80]):
            said = refusal(await spot.post(CHAT, body), 400)
            assert list(said) == ["object", "message", "type", "param", "code"]
            assert (said["type"], said["param"], said["code"]) == ("Bad Request", None, 400)
            assert words in said["message"]
            assert "POST /v1/chat/completions" in said["message"], "the engine tells more than it should"


async def test_a_value_out_of_range_is_a_400_even_for_a_stream(spot: Spot, subtests: pytest.Subtests) -> None:
    for fields, kind, words in OUT_OF_RANGE:
        for stream in (False, True):
            with subtests.test(words, stream=stream):
                said = refusal(await spot.post(CHAT, chat_body(stream=stream) | fields), 400)
                assert (said["object"], said["type"], said["param"]) == ("error", kind, None)
                assert said["code"] == 400
                assert words in said["message"]


async def test_no_choice_at_all_is_refused_unless_it_is_streamed(spot: Spot) -> None:
    said = refusal(await spot.chat(n=0, max_tokens=2), 400)
    assert (said["type"], said["message"]) == ("BadRequest", "range() arg 3 must not be zero")
    assert len(events(await spot.chat(n=0, max_tokens=2, stream=True))) >= 3


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"regex": "(["}, "Failed to compile regex grammar"), ({"response_format": BAD_SCHEMA}, "json grammar")],
    ids=["regex", "schema"],
)
async def test_a_bad_grammar_is_a_400_or_a_streams_first_event(spot: Spot, fields: Body, words: str) -> None:
    said = refusal(await spot.post(CHAT, chat_body(max_tokens=5) | fields), 400)
    assert (said["type"], said["code"]) == ("BadRequestError", 400)
    assert words in said["message"]
    answer = await spot.post(CHAT, chat_body(max_tokens=5, stream=True) | fields)
    assert bytes(answer.body).startswith(b'data: {"error": {"object": "error", "message": ')
    error = stream_error(answer)
    assert (error["type"], error["param"], error["code"]) == ("BAD_REQUEST", None, 400)
    assert len(events(answer)) == 1
    counted = await spot.post(
        CHAT, chat_body(max_tokens=5, stream=True, stream_options={"include_usage": True}) | fields
    )
    assert [event.get("choices") for event in events(counted)] == [None, []]
    completion = {"prompt": "x", "max_tokens": 2, "stream": True} | fields
    assert stream_error(await spot.post("/v1/completions", completion))["code"] == 400


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (b'{"model": "tiny", "messages": [', "application/json", "json_invalid"),
        (b"", "application/json", "Field required"),
        (b'{"messages": []}', "text/plain", "Unsupported Media Type"),
    ],
    ids=["broken JSON", "empty", "no JSON"],
)
async def test_bytes_that_are_no_json(direct: Spot, body: bytes, content_type: str, words: str) -> None:
    """Directly only: the router refuses such bodies itself."""
    said = refusal(await direct.post(CHAT, body, content_type=content_type), 400)
    assert (said["object"], said["type"], said["code"]) == ("error", "Bad Request", 400)
    assert words in said["message"]


async def test_json_that_is_no_object_is_the_engines_own_failure(direct: Spot) -> None:
    answer = await direct.post(CHAT, b"[1]")
    assert (answer.status, bytes(answer.body)) == (500, b"Internal Server Error")
    assert answer.head.get("content-type") == "text/plain; charset=utf-8"
    assert (await direct.post("/v1/completions", b"[1]")).status == 400


@pytest.mark.parametrize("stream", [False, True])
async def test_a_list_of_ids_is_the_engines_own_failure(direct: Spot, *, stream: bool) -> None:
    said = refusal(await direct.chat(max_tokens=1, rid=["a", "b"], stream=stream), 500)
    assert (said["type"], said["code"]) == ("InternalServerError", 500)
    assert "unhashable" in said["message"]


async def test_refusals_of_generate_have_another_envelope(spot: Spot) -> None:
    long = generate_body(3, LONG)
    said = refusal(await spot.post("/generate", long), 400)
    assert list(said) == ["error"]
    assert list(said["error"]) == ["message"]
    (event,) = events(await spot.post("/generate", long | {"stream": True}))
    assert list(event["error"]) == ["message", "type", "code", "retryable"]
    assert (event["error"]["code"], event["error"]["retryable"]) == (400, False)
    cold = generate_body(1)
    cold["sampling_params"]["temperature"] = -1
    assert "non-negative" in refusal(await spot.post("/generate", cold), 400)["error"]["message"]
    assert "should be provided" in refusal(await spot.post("/generate", {}), 400)["error"]["message"]


async def test_generate_tells_of_a_bad_grammar_as_of_an_abort(spot: Spot) -> None:
    body = generate_body(3)
    body["sampling_params"]["regex"] = "(["
    assert "regex grammar" in refusal(await spot.post("/generate", body), 400)["error"]["message"]
    (event,) = events(await spot.post("/generate", body | {"stream": True}))
    reason = event["meta_info"]["finish_reason"]
    assert (reason["type"], reason["status_code"]) == ("abort", 400)


async def test_other_refusals(spot: Spot) -> None:
    empty = refusal(await spot.post("/v1/completions", {"model": "tiny", "prompt": ""}), 400)
    assert empty["message"] == "Prompt cannot be empty"
    assert "Field required" in refusal(await spot.post("/v1/embeddings", {"model": "tiny"}), 400)["message"]
    said = refusal(await spot.get("/v1/models/nope"), 404)
    assert said["error"]["code"] == "model_not_found"


async def test_routes_and_methods_that_are_not_there(direct: Spot) -> None:
    """Directly only: the router answers for routes that it does not know."""
    assert refusal(await direct.get("/nope"), 404) == {"detail": "Not Found"}
    assert refusal(await direct.get("/get_load"), 404) == {"detail": "Not Found"}
    answer = await direct.get(CHAT)
    assert refusal(answer, 405) == {"detail": "Method Not Allowed"}
    assert answer.head.get("allow") == "POST"
