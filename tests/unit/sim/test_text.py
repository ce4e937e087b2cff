from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.sim.request import Finish
from router.sim.text import EOS_TOKEN, Script, detokenize, text_key, token_id, tokenize, write_script


def text_of(script: Script) -> str:
    text = json.loads(b'"' + b"".join(script.pieces) + b'"')
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize(
    ("text", "count"), [("hello world", 2), ("The capital of France is", 5), ("word " * 6000, 6001), ("", 0)]
)
def test_counts_tokens_as_the_recorded_model_did(text: str, count: int) -> None:
    assert len(tokenize(text)) == count


@given(st.text())
def test_tokens_join_to_the_text(text: str) -> None:
    assert "".join(tokenize(text)) == text


@given(st.integers(0, 2**64 - 1), st.integers(0, 300), st.booleans())
def test_a_script_keeps_its_promises(key: int, max_tokens: int, ends: bool) -> None:
    script = write_script(key, max_tokens, natural=(20.0, 0.6) if ends else None)
    assert len(script.ids) == len(script.pieces) <= max_tokens
    if script.finish is Finish.STOP:
        assert ends
        assert (script.ids[-1], script.matched_stop) == (EOS_TOKEN, EOS_TOKEN)
    else:
        assert len(script.ids) == max_tokens
    assert detokenize(script.ids) == text_of(script)


def test_the_key_alone_decides() -> None:
    assert write_script(5, 50, natural=None) == write_script(5, 50, natural=None)
    assert write_script(5, 50, natural=None) != write_script(6, 50, natural=None)


def test_natural_lengths_are_drawn_around_the_median() -> None:
    lengths = sorted(len(write_script(text_key(i), 10_000, natural=(100.0, 0.5)).ids) for i in range(400))
    assert lengths[200] == pytest.approx(100, rel=0.15)
    assert lengths[0] < 50 < 200 < lengths[-1]


@given(st.integers(0, 1000), st.sampled_from([" the", "e", " people than", "zzz", "é"]))
def test_a_stop_string_cuts_before_itself(key: int, stop: str) -> None:
    whole = text_of(write_script(key, 200, natural=None))
    script = write_script(key, 200, natural=None, stop=("zzzz", stop))
    if stop in whole:
        assert text_of(script) == whole[: whole.index(stop)]
        assert (script.finish, script.matched_stop) == (Finish.STOP, stop)
        assert 0 < len(script.ids) <= 200
    else:
        assert text_of(script) == whole


def test_ids_of_the_vocabulary_go_both_ways() -> None:
    assert detokenize([token_id(" the")]) == " the"
    assert detokenize([token_id("unheard")]) == "�"
    assert token_id("unheard") == token_id("unheard") != token_id("of it")
