"""Looking on gives the same result however an answer is cut into chunks, and survives any bytes."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.scan import ERROR_LOOK, TAIL, Scanner, Usage, event_end, event_error_code, last_usage

ENDINGS = [b"\n", b"\r\n", b"\r"]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ['"error"', '"completion_tokens": 7', "[DONE]", 'data: {"error":{"code":1}}', "\n\n", "京🌍"]
)
counts = st.integers(0, 10**9)
codes = st.sampled_from([400, 429, 500, 503])
bodies = st.one_of(
    texts.map(lambda text: {"choices": [{"delta": {"content": text}}]}),
    st.tuples(codes, texts).map(lambda it: {"error": {"message": it[1], "code": it[0]}}),
    st.tuples(codes, texts).map(lambda it: {"id": it[1], "error": {"code": it[0]}, "x": it[1]}),
    st.just({"error": None, "choices": []}),
    texts.map(lambda text: {"error": text}),
    st.tuples(counts, counts).map(
        lambda it: {"choices": [], "usage": {"prompt_tokens": it[0], "completion_tokens": it[1]}}
    ),
)


def as_event(body: object, end: bytes, compact: bool) -> bytes:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":") if compact else None)
    return b"data: " + text.encode() + end * 2


@st.composite
def event_streams(draw: st.DrawFn, endings: list[bytes] = ENDINGS) -> list[bytes]:
    """Whole events, as an engine would send them, with one sort of line ending."""
    end, compact = draw(st.sampled_from(endings)), draw(st.booleans())
    events = [as_event(body, end, compact) for body in draw(st.lists(bodies, max_size=12))]
    if draw(st.booleans()):
        events.append(b"data: [DONE]" + end * 2)
    return events


@st.composite
def pieces_of(draw: st.DrawFn, stream: bytes) -> list[bytes]:
    size = draw(st.sampled_from([0, 0, 1, 7, 4096]))
    cuts = (
        list(range(0, len(stream), size))
        if size
        else draw(st.lists(st.integers(0, len(stream)), max_size=20))
    )
    edges = sorted({0, *cuts, len(stream)})
    return [stream[begin:end] for begin, end in pairwise(edges)]


def scanned(pieces: list[bytes]) -> Scanner:
    scanner = Scanner(streamed=True)
    for piece in pieces:
        scanner.feed(piece)
    return scanner


def findings(scanner: Scanner) -> tuple[int | None, bool, Usage]:
    return scanner.error_code, scanner.done, scanner.usage()


# Streams that no engine would send: broken events, odd line ends, runs beyond the bounds.
scraps = st.one_of(
    event_streams().map(b"".join),
    st.binary(max_size=20),
    st.sampled_from(
        [b"data: ", b'"error"', b'"err', b'or": ', b'{"error":{"code":503}}', b"\n", b"\r", b"\r\n", b"\n\n",
         b'"completion_tokens"', b': 12', b"[DONE]", b" "]
    ),
    st.tuples(st.sampled_from([b"x", b"\n", b'{"error":', b"data: "]), st.integers(0, ERROR_LOOK + 500)).map(
        lambda it: it[0] + b"y" * it[1]
    ),
)  # fmt: skip


@given(st.data(), event_streams())
def test_any_cutting_of_an_event_stream_gives_what_its_events_say(
    data: st.DataObject, events: list[bytes]
) -> None:
    stream = b"".join(events)
    scanner = scanned(data.draw(pieces_of(stream)))
    named = [code for code in map(event_error_code, events) if code is not None]
    assert scanner.error_code == (named[-1] if named else None)
    assert scanner.done is (bool(events) and events[-1].startswith(b"data: [DONE]"))
    assert scanner.usage() == last_usage(stream[-TAIL:])


@given(st.data(), event_streams(endings=[b"\n"]))
def test_events_are_counted_the_same_however_they_are_cut(data: st.DataObject, events: list[bytes]) -> None:
    scanner = scanned(data.draw(pieces_of(b"".join(events))))
    assert scanner.events == len(events)
    assert scanner.content_events == max(0, len(events) - 3)


@given(st.data(), st.lists(scraps, max_size=10))
def test_even_a_malformed_stream_gives_the_same_cut_or_whole(data: st.DataObject, parts: list[bytes]) -> None:
    stream = b"".join(parts)
    assert findings(scanned(data.draw(pieces_of(stream)))) == findings(scanned([stream]))


@given(st.data(), counts, counts, st.integers(0, 2 * TAIL))
def test_the_usage_of_a_whole_answer_is_found_within_the_tail(
    data: st.DataObject, prompt: int, completion: int, length: int
) -> None:
    usage = {"usage": {"prompt_tokens": prompt, "completion_tokens": completion}}
    body = json.dumps({"text": "x" * length, **usage}).encode()
    scanner = Scanner(streamed=False)
    for piece in data.draw(pieces_of(body)):
        scanner.feed(piece)
    assert scanner.usage() == Usage(prompt, completion)
    assert (scanner.events, scanner.error_code) == (0, None)


@given(st.binary(max_size=40), st.sampled_from(ENDINGS), st.sampled_from(ENDINGS), st.binary(max_size=20))
def test_an_event_ends_behind_its_first_blank_line_whatever_ends_its_lines(
    line: bytes, first: bytes, second: bytes, rest: bytes
) -> None:
    if (first, second) == (b"\r", b"\n"):
        second = b"\r\n"  # CR before LF is one line end
    line = line.replace(b"\n", b".").replace(b"\r", b".")
    event = b"data: " + line + first + second
    rest = rest.lstrip(b"\n") if event.endswith(b"\r") else rest
    assert event_end(event + rest) == len(event)
    assert event_end(b"data: " + line + first) is None


@given(st.binary(max_size=200))
def test_an_event_ends_where_a_reading_of_its_lines_says(data: bytes) -> None:
    """Against the plain reading: split off line after line until an empty one follows another's end."""
    expected, at, ended = None, 0, False
    while at < len(data):
        if data[at : at + 2] == b"\r\n":
            width = 2
        elif data[at : at + 1] in (b"\r", b"\n"):
            width = 1
        else:
            ended = False
            at += 1
            continue
        at += width
        if ended:
            expected = at
            break
        ended = True
    assert event_end(data) == expected


@given(
    st.binary(max_size=300),
    st.sampled_from([b"", b'data: {"error":', b'data: {"error":{"code":', b'{"abort"']),
)
def test_no_bytes_are_too_strange_to_look_at(data: bytes, prefix: bytes) -> None:
    stream = prefix + data
    code = event_error_code(stream)
    assert code is None or type(code) is int
    scanner = scanned([stream, stream])
    assert scanner.error_code is None or type(scanner.error_code) is int
    for number in (scanner.usage().prompt_tokens, scanner.usage().completion_tokens):
        assert number is None or number >= 0


@pytest.mark.parametrize("code", [400, 503])
@given(extra=st.dictionaries(texts, texts, max_size=3), end=st.sampled_from(ENDINGS), space=st.booleans())
def test_the_code_of_an_error_is_read_whatever_stands_beside_it(
    code: int, extra: dict[str, str], end: bytes, space: bool
) -> None:
    body = {**extra, "error": {**extra, "code": code}}
    event = as_event(body, end, compact=True)
    assert event_error_code(event if space else event.replace(b"data: ", b"data:", 1)) == code
