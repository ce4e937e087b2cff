"""The formats against bytes that a real SGLang 0.5.23 sent: with its ids, times and words ours are equal."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Any

import pytest

from router.sim import errors
from router.sim.calls import Call, Prompt
from router.sim.choice import Choice, Format
from router.sim.native_format import GenerateFormat
from router.sim.openai_format import ChatFormat, CompletionFormat
from router.sim.request import Delivery, Finish, SimRequest
from router.sim.text import EOS_TOKEN, Script

RECORDED = FilePath(__file__).parent / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def a_choice(
    rid: str,
    words: Sequence[str],
    finish: Finish,
    *,
    prompt: int,
    index: int = 0,
    matched: int | str | None = None,
    ids: Sequence[int] = (),
) -> Choice:
    pieces = [json.dumps(word)[1:-1].encode() for word in words]
    script = Script(list(ids) or list(range(len(words))), pieces, finish, matched)
    request = SimRequest(rid, prompt, len(words), finish)
    return Choice(rid, index, Prompt(prompt, (), 0), script, request)


def delivered(choice: Choice, tokens: int = 1) -> Delivery:
    """The next delivery of the choice, as the engine makes it."""
    request = choice.request
    request.generated += tokens
    finish = request.finish if request.generated == request.output_tokens else None
    return Delivery(request, tokens, finish, 0.0)


def streamed(wire: Format, choice: Choice) -> str:
    events = []
    while choice.taken < choice.request.output_tokens:
        events += wire.events(choice, delivered(choice))
    return b"".join(events + wire.tail([choice])).decode()


def taken(choice: Choice) -> Choice:
    choice.take(delivered(choice, choice.request.output_tokens))
    return choice


A_CALL = Call(model="smol", prompts=())


def call(model: str = "smol", **fields: Any) -> Call:
    return Call(model=model, prompts=(), **fields)


def test_chat_stream_with_usage() -> None:
    words = ["The", " capital", " of", " France", " is", " Paris", ".", ""]
    choice = a_choice("d9829ce20ee4433eb2ca2df1e73ecb9f", words, Finish.STOP, prompt=37, matched=EOS_TOKEN)
    wire = ChatFormat(call(include_usage=True), 1795964233)
    assert streamed(wire, choice) == recorded("chat_stream_usage.txt")


def test_chat_stream() -> None:
    choice = a_choice("8259871badef4131bc608dea0bedb51d", ["I", "'m", " glad"], Finish.LENGTH, prompt=32)
    assert streamed(ChatFormat(call(), 1795964233), choice) == recorded("chat_stream.txt")


def test_chat_stream_with_continuous_usage() -> None:
    choice = a_choice("62c4fa1b009c4054b4409da8e6844bac", ["I", "'m", " glad"], Finish.LENGTH, prompt=32)
    wire = ChatFormat(call(include_usage=True, continuous_usage=True), 1795964233)
    assert streamed(wire, choice) == recorded("chat_stream_continuous.txt")


def test_chat_stream_of_two_choices() -> None:
    first = a_choice("f31ff8be04a04eee8ef64a36156128b0", ["A", "w", "esome"], Finish.LENGTH, prompt=32)
    ids = "5ffeb922b6ae41ba819700c9e7c573b2"
    second = a_choice(ids, ["Hey", "!", " How"], Finish.LENGTH, prompt=32, index=1)
    second.prompt = first.prompt
    wire = ChatFormat(call(n=2, include_usage=True), 1795964234)
    events = [event for choice in (first, second) for event in wire.events(choice, delivered(choice))]
    events += wire.events(first, delivered(first)) + wire.events(second, delivered(second))
    events += wire.events(second, delivered(second)) + wire.events(first, delivered(first))
    events += wire.tail([first, second])
    assert b"".join(events).decode() == recorded("chat_stream_n2.txt")


@pytest.mark.parametrize(
    ("name", "rid", "created", "words", "finish", "matched"),
    [
        (
            "chat.json",
            "bfdc6cec955545b1bfbbe727cbdf655f",
            1795964232,
            ["The capital of", " France", " is", " Paris", ".", "", "", ""],
            Finish.STOP,
            2,
        ),
        (
            "chat_length.json",
            "230b01068a2e45609523893aa3fccfc5",
            1795964233,
            ["The", " capital", " of"],
            Finish.LENGTH,
            None,
        ),
        (
            "chat_stop_string.json",
            "c4269013718540cbb7cc049060efc7ca",
            1795964234,
            ["The", " capital", " of", " "],
            Finish.STOP,
            "France",
        ),
    ],
)
def test_chat(
    name: str, rid: str, created: int, words: list[str], finish: Finish, matched: int | str | None
) -> None:
    choice = taken(a_choice(rid, words, finish, prompt=37, matched=matched))
    assert ChatFormat(call(), created).body([choice]).decode() == recorded(name)


def test_chat_of_no_tokens() -> None:
    choice = taken(a_choice("a9e7b76e475e4c77893cc22b3a01b666", [], Finish.LENGTH, prompt=31))
    assert ChatFormat(call(), 1795964237).body([choice]).decode() == recorded("max_tokens_zero.json")


def test_completion_stream() -> None:
    choice = a_choice("6a354a339f6f4803b47e05aa579374c8", [" Paris", ".", "\n"], Finish.LENGTH, prompt=5)
    wire = CompletionFormat(call(include_usage=True), 1795964236)
    assert streamed(wire, choice) == recorded("completions_stream_usage.txt")


def test_completion() -> None:
    choice = taken(
        a_choice("6113777bb56b45019e5dfcf27a5b24e5", [" Paris", ".", "\n"], Finish.LENGTH, prompt=5)
    )
    assert CompletionFormat(call(), 1795964236).body([choice]).decode() == recorded("completions.json")


VOLATILE = re.compile(
    r'("(?:[a-z0-9_]*time|[a-z_]*_ts|e2e_latency|first_token_latency|decode_throughput)"):[-0-9.e]+'
)


def without_times(text: str) -> list[str]:
    """Events with their times blanked."""
    return VOLATILE.sub(r"\1:0", text).split("\n\n")


def generate_choice(rid: str) -> Choice:
    choice = a_choice(rid, [" Paris", ".", "\n"], Finish.LENGTH, prompt=5, ids=[7042, 30, 198])
    request = choice.request
    request.submitted_at, request.admitted_at, request.first_token_at, request.finished_at = (
        1.0,
        2.0,
        3.0,
        4.0,
    )
    request.cached_tokens = 4
    return choice


def without_late(text: str) -> str:
    """Without the time that comes and goes between SGLang's own events."""
    return re.sub(r',?"response_sent_to_client_ts":[0-9.]+', "", text)


def test_generate() -> None:
    choice = taken(generate_choice("c4cc34bd8a98470c9ccd19b92fecbff4"))
    ours = GenerateFormat(A_CALL, lambda at: at, 0, 1.0).body([choice]).decode()
    assert without_times(without_late(ours)) == without_times(without_late(recorded("generate.json")))


def test_generate_stream() -> None:
    ours = streamed(
        GenerateFormat(A_CALL, lambda at: at, 0, 1.0), generate_choice("3030923baded40978600f66a5e435fef")
    )
    assert without_times(without_late(ours)) == without_times(without_late(recorded("generate_stream.txt")))


def test_generate_too_long_in_a_stream() -> None:
    text = "The input (6001 tokens) is longer than the model's context length (4096 tokens)."
    events = GenerateFormat(A_CALL, lambda at: at, 0, 1.0).error_events(errors.LengthError(text))
    assert b"".join(events).decode() == recorded("generate_too_long_stream.txt")


def test_a_streams_error_event_is_nested_and_spaced() -> None:
    assert errors.stream_event("Request running timeout reached.", 503) == (
        b'data: {"error": {"object": "error", "message": "Request running timeout reached.", '
        b'"type": "SERVICE_UNAVAILABLE", "param": null, "code": 503}}\n\n'
    )


def test_the_same_error_outside_a_stream_is_flat_and_tight() -> None:
    assert errors.openai("Request running timeout reached.", 503) == (
        b'{"object":"error","message":"Request running timeout reached.",'
        b'"type":"503","param":null,"code":503}'
    )


def test_several_speculative_tokens_are_one_delta() -> None:
    choice = a_choice("r", ["A", " b", " c", ""], Finish.STOP, prompt=1, matched=EOS_TOKEN)
    wire = ChatFormat(call(), 1)
    wire.events(choice, delivered(choice))
    (content,) = wire.events(choice, delivered(choice, 3))
    finish = wire.tail([choice])[0]
    assert b'"content":" b c"' in content
    assert b'"finish_reason":"stop","matched_stop":2' in finish
    assert b"content" not in finish.replace(b"reasoning_content", b"")
