"""Whatever JSON arrives, a parser answers with a call ."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.sim import calls
from router.sim.calls import Call
from router.sim.errors import WireError

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 10), st.floats(-2, 2), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
TEXT_FIELDS = [
    "messages",
    "prompt",
    "text",
    "input_ids",
    "sampling_params",
    "tools",
    "system",
    "stop_sequences",
]
NUMBER_FIELDS = ["max_tokens", "max_completion_tokens", "temperature", "top_p", "n", "seed"]
OTHER_FIELDS = ["model", "stop", "stream", "stream_options", "rid", "ignore_eos"]
FIELDS = TEXT_FIELDS + NUMBER_FIELDS + OTHER_FIELDS
bodies = st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=6)
T = TypeVar("T")
PARSERS = [calls.chat, calls.completion, calls.generate, calls.messages]


def outcome(parse: Callable[[], T]) -> T | WireError:
    try:
        return parse()
    except WireError as error:
        return error


@pytest.mark.parametrize("parse", PARSERS)
@settings(max_examples=60, deadline=None)
@given(body=bodies, turn=st.one_of(st.none(), json_values))
def test_a_call_or_a_400(parse: Callable[[dict[str, Any]], Call], body: dict[str, Any], turn: object) -> None:
    if turn is not None:
        body = body | {"messages": [{"role": "user", "content": turn}]}
    found = outcome(lambda: parse(body))
    if isinstance(found, WireError):
        # SGLang trips over a list of ids.
        assert found.status == 400 or (found.status == 500 and isinstance(body["rid"], list))
        assert found.media_type != "application/json" or json.loads(found.body)
    else:
        assert found.prompts
        assert found.n >= 1


@pytest.mark.parametrize("parse", PARSERS)
def test_no_field_of_a_wrong_type_is_a_crash(parse: Callable[[dict[str, Any]], Call]) -> None:
    good = {"messages": [{"role": "user", "content": "x"}], "prompt": "x", "text": "x"}
    values: list[object] = [3, True, "x", [], [3], {}, {"a": 1}]
    for field in FIELDS:
        for value in values:
            body = good | {field: value}
            assert isinstance(outcome(lambda body=body: parse(body)), (Call, WireError))  # type: ignore[misc]


@given(st.binary(max_size=40))
def test_a_document_or_a_400(body: bytes) -> None:
    found = outcome(lambda: calls.decode("/generate", "application/json; charset=utf-8", body))
    if isinstance(found, WireError):
        assert found.status == 400
        assert msgspec.json.decode(found.body)
    else:
        assert isinstance(found, dict)


def test_chat_tokens_are_the_recorded_models() -> None:
    def count(text: str) -> int:
        return calls.chat({"messages": [{"role": "user", "content": text}]}).prompts[0].tokens

    assert [count("hi"), count("Say hi"), count("What is the capital of France?")] == [31, 32, 37]


def test_a_longer_conversation_keeps_its_prefix() -> None:
    turns = [{"role": "user", "content": "word " * 50}]
    first = calls.chat({"messages": turns}).prompts[0]
    longer = [*turns, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "more " * 50}]
    second = calls.chat({"messages": longer}).prompts[0]
    assert second.blocks[: len(first.blocks)] == first.blocks
    assert second.key != first.key


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [("a b", [2]), (["a b", "c"], [2, 1]), ([1, 2, 3], [3]), ([[1, 2], [3]], [2, 1])],
)
def test_completion_prompts_come_in_four_shapes(prompt: object, tokens: list[int]) -> None:
    assert [p.tokens for p in calls.completion({"prompt": prompt}).prompts] == tokens
