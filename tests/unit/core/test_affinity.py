"""Which engine holds a stored response."""

from __future__ import annotations

import json

import pytest

from router.core.affinity import ID_LOOK, Affinity, ResponseScanner
from router.core.words import Path
from tests.support import FakeClock

SPECULATIVE, BASELINE = Path


def test_a_response_is_found_where_it_was_made_until_it_is_forgotten() -> None:
    clock = FakeClock()
    affinity = Affinity(clock, kept_for=10.0)
    assert affinity.find("resp_1") is None
    affinity.learn("resp_1", BASELINE)
    clock.advance(9.5)
    assert affinity.find("resp_1") is BASELINE
    clock.advance(0.5)
    assert affinity.find("resp_1") is None
    assert len(affinity) == 0


def test_the_oldest_is_forgotten_first() -> None:
    affinity = Affinity(FakeClock(), size=2)
    for name in ("a", "b", "a", "c"):
        affinity.learn(name, SPECULATIVE)
    assert [affinity.find(name) for name in "abc"] == [SPECULATIVE, None, SPECULATIVE]


def test_what_an_engine_held_ends_with_it() -> None:
    affinity = Affinity(FakeClock())
    affinity.learn("a", SPECULATIVE)
    affinity.learn("b", BASELINE)
    affinity.forget(SPECULATIVE)
    assert (affinity.find("a"), affinity.find("b")) == (None, BASELINE)


WHOLE = json.dumps({"id": "resp_0a", "object": "response", "previous_response_id": "resp_old"}).encode()
CREATED = {"type": "response.created", "sequence_number": 0, "response": {"id": "resp_0a", "model": "m"}}
STREAM = b"event: response.created\ndata: " + json.dumps(CREATED).encode() + b'\n\ndata: {"id": "resp_2"}\n\n'


def ids_of(*pieces: bytes) -> list[str]:
    found: list[str] = []
    scanner = ResponseScanner(streamed=True, on_id=found.append)
    for piece in pieces:
        scanner.feed(piece)
    return found


@pytest.mark.parametrize("answer", [WHOLE, STREAM])
def test_the_id_is_found_however_the_answer_is_cut(answer: bytes) -> None:
    assert ids_of(answer) == ["resp_0a"]
    assert ids_of(*(answer[at : at + 1] for at in range(len(answer)))) == ["resp_0a"]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b'{"error": {"message": "no"}}',
        b'{"id": "chatcmpl-1"}',
        json.dumps({"text": '{"id": "resp_fake"}'}).encode(),
        b'{"previous_response_id": "resp_old"}',
        b" " * ID_LOOK + WHOLE,
        b'{"id": "resp_' + b"x" * 200 + b'"}',
    ],
    ids=lambda answer: repr(answer[:40]),
)
def test_what_is_no_id_is_not_learnt(answer: bytes) -> None:
    assert ids_of(answer) == []


def test_it_looks_on_as_any_scanner_does() -> None:
    scanner = ResponseScanner(streamed=False, on_id=lambda found: None)
    scanner.feed(WHOLE[:-1] + b', "usage": {"input_tokens": 3, "output_tokens": 7}}')
    assert scanner.usage().completion_tokens == 7
