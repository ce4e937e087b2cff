"""Looking on: event ends, errors in events, usage, the end mark."""

from __future__ import annotations

import pytest

from router.core.scan import (
    ERROR_LOOK,
    KEPT,
    TAIL,
    Scanner,
    Usage,
    event_end,
    event_error_code,
    last_usage,
)

ENDINGS = [b"\n", b"\r\n", b"\r"]
# CR before LF is one line end, not two.
BLANK_LINES = [first + second for first in ENDINGS for second in ENDINGS if (first, second) != (b"\r", b"\n")]


@pytest.mark.parametrize("blank", BLANK_LINES)
def test_every_blank_line_of_the_grammar_ends_an_event(blank: bytes) -> None:
    event = b"data: x" + blank
    assert event_end(event) == len(event)
    assert event_end(bytearray(event + b"data: y" + blank)) == len(event), "the first one counts"


@pytest.mark.parametrize(
    "data", [b"", b"data: x", b"data: x\n", b"data: x\r\n", b"data: x\r", b"a\nb\r\nc\rd"]
)
def test_an_event_without_its_blank_line_has_not_ended(data: bytes) -> None:
    assert event_end(data) is None


OVERLOADED = (
    b'{"error":{"object":"error","message":"The request queue is full.","type":"SERVICE_UNAVAILABLE",'
    b'"param":null,"code":503}}'
)
EVENTS = [
    ("sglang's overload", b"data: " + OVERLOADED + b"\n\n", 503),
    ("no space", b"data:" + OVERLOADED + b"\n\n", 503),
    ("crlf", b"data: " + OVERLOADED + b"\r\n\r\n", 503),
    ("cr", b"data: " + OVERLOADED + b"\r\r", 503),
    ("several data lines", b'data: {"error":\ndata: {"code": 400}}\n\n', 400),
    ("named event", b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n', 500),
    ("a comment first", b": hi\ndata: " + OVERLOADED + b"\n\n", 503),
    ("no code", b'data: {"error":{"message":"no"}}\n\n', 500),
    ("code is text", b'data: {"error":{"code":"context_length_exceeded"}}\n\n', 500),
    ("code is null", b'data: {"error":{"code":null}}\n\n', 500),
    ("code is a bool", b'data: {"error":{"code":true}}\n\n', 500),
    ("error is text", b'data: {"error":"no"}\n\n', 500),
    ("error is null", b'data: {"error":null,"choices":[]}\n\n', None),
    ("error is empty", b'data: {"error":{}}\n\n', None),
    ("abort", b'data: {"text":"","meta_info":{"finish_reason":{"type":"abort","status_code":503}}}\n\n', 503),
    ("abort without code", b'data: {"meta_info":{"finish_reason":{"type":"abort"}}}\n\n', None),
    (
        "abort, code is text",
        b'data: {"meta_info":{"finish_reason":{"type":"abort","status_code":"5"}}}\n\n',
        None,
    ),
    (
        "abort, code is a bool",
        b'data: {"meta_info":{"finish_reason":{"type":"abort","status_code":true}}}\n\n',
        None,
    ),
    ("another finish", b'data: {"x":"abort","meta_info":{"finish_reason":{"type":"stop"}}}\n\n', None),
    ("unfinished", b'data: {"x":"abort","meta_info":{"finish_reason":null}}\n\n', None),
    ("no meta", b'data: {"x":"abort"}\n\n', None),
    ("abort elsewhere", b'data: {"finish_reason":"abort","meta_info":[]}\n\n', None),
    ("content", b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n', None),
    ("words about errors", rb'data: {"choices":[{"delta":{"content":"\"error\""}}]}' + b"\n\n", None),
    ("end mark", b"data: [DONE]\n\n", None),
    ("not json", b'data: "error"}\n\n', None),
    ("no object", b'data: ["error"]\n\n', None),
    ("not utf-8", b'data: {"error":"\xff"}\n\n', None),
    ("too deep", b'data: {"error":' + b"[" * 100_000 + b"\n\n", None),
    ("a huge number", b'data: {"error":{"code":' + b"9" * 5000 + b"}}\n\n", None),
    ("no data field", OVERLOADED + b"\n\n", None),
    ("in a comment", b": " + OVERLOADED + b"\n\n", None),
    ("empty", b"", None),
]


@pytest.mark.parametrize(("event", "code"), [row[1:] for row in EVENTS], ids=[row[0] for row in EVENTS])
def test_the_code_of_an_error_event(event: bytes, code: int | None) -> None:
    assert event_error_code(event) == code
    assert event_error_code(bytearray(event)) == code


@pytest.mark.parametrize(
    ("tail", "usage"),
    [
        (b"", Usage(None, None)),
        (b'"usage":{"prompt_tokens":12,"total_tokens":46,"completion_tokens":34}', Usage(12, 34)),
        (b'"usage": {"input_tokens" : 5 , "output_tokens":\n 6}', Usage(5, 6)),
        (b'{"completion_tokens":1}{"completion_tokens":2}', Usage(None, 2)),
        (b'"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":2}', Usage(3, None)),
        (b'"usage":null', Usage(None, None)),
        (b'"completion_tokens":null', Usage(None, None)),
        (b'"completion_tokens":"7"', Usage(None, None)),
        (rb'"content":"\"completion_tokens\":99"', Usage(None, None)),
        (b'tokens":4,"completion_tokens":0', Usage(None, 0)),
    ],
)
def test_the_last_counts_of_an_answer(tail: bytes, usage: Usage) -> None:
    assert last_usage(tail) == usage
    assert last_usage(bytearray(tail)) == usage


CHUNK = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'
ERROR = b"data: " + OVERLOADED + b"\n\n"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\n'
DONE = b"data: [DONE]\n\n"


def scanned(*pieces: bytes, streamed: bool = True) -> Scanner:
    scanner = Scanner(streamed=streamed)
    for piece in pieces:
        scanner.feed(piece)
    return scanner


def test_a_whole_stream() -> None:
    scanner = scanned(CHUNK, CHUNK, CHUNK, CHUNK, USAGE, DONE)
    assert (scanner.events, scanner.content_events) == (6, 3)
    assert (scanner.done, scanner.error_code, scanner.usage()) == (True, None, Usage(9, 4))


def test_a_stream_that_breaks_off_is_not_done() -> None:
    scanner = scanned(CHUNK, CHUNK)
    assert (scanner.done, scanner.events, scanner.content_events) == (False, 2, 0)


def test_nothing_fed_is_nothing_seen() -> None:
    scanner = scanned()
    assert (scanner.done, scanner.error_code, scanner.events, scanner.usage()) == (
        False,
        None,
        0,
        Usage(None, None),
    )


def test_an_answer_that_is_no_stream_has_usage_but_neither_events_nor_event_errors() -> None:
    body = b'{"error":{"code":503},\n\n"usage":{"prompt_tokens":1,"completion_tokens":2}}'
    scanner = scanned(body, streamed=False)
    assert (scanner.events, scanner.error_code, scanner.usage()) == (0, None, Usage(1, 2))


CUT_KEY = ERROR.index(b'"error"') + 3
SECOND = b'data: {"error":{"code":400}}\n\n'
NO_ERROR = b'data: {"error":null}\n\n'
STREAMS = [
    ("whole", [ERROR], 503),
    ("between others", [CHUNK + ERROR + CHUNK], 503),
    ("the key cut in two", [CHUNK, ERROR[:CUT_KEY], ERROR[CUT_KEY:]], 503),
    ("the key cut before its last byte", [ERROR[:14], ERROR[14:]], 503),
    ("the line's start in an earlier chunk", [b'data: {"id":1,', b'"error":{"code":503}}\n\n'], 503),
    ("byte by byte", [bytes([byte]) for byte in CHUNK + ERROR + DONE], 503),
    ("the blank line cut in two", [ERROR[:-1], ERROR[-1:]], 503),
    ("two errors in one chunk: the last", [ERROR + SECOND], 400),
    ("two errors in two chunks: the last", [SECOND, ERROR], 503),
    ("an event whose error is null, then one", [NO_ERROR + ERROR], 503),
    ("one, then an event whose error is null", [ERROR, NO_ERROR], 503),
    ("a cut event, then one in the same chunk", [NO_ERROR[:12], NO_ERROR[12:] + ERROR + CHUNK], 503),
    ("lines that end with CR", [(CHUNK + ERROR).replace(b"\n", b"\r")], 503),
    ("lines that end with CRLF", [(CHUNK + ERROR).replace(b"\n", b"\r\n")], 503),
    ("no blank line yet", [CHUNK, ERROR[:-1]], None),
    ("none", [CHUNK, CHUNK, DONE], None),
]


@pytest.mark.parametrize(("pieces", "code"), [row[1:] for row in STREAMS], ids=[row[0] for row in STREAMS])
def test_an_error_in_the_middle_of_a_stream_is_seen_however_it_is_cut(
    pieces: list[bytes], code: int | None
) -> None:
    assert scanned(*pieces).error_code == code


def padded_error(length: int) -> bytes:
    """An error event of exactly `length` bytes."""
    empty = b'data: {"error":{"code":503,"message":""}}\n\n'
    return empty.replace(b'""', b'"' + b"x" * (length - len(empty)) + b'"')


@pytest.mark.parametrize("piece", [1000, 5000, 100_000])
@pytest.mark.parametrize(("length", "code"), [(ERROR_LOOK, 503), (ERROR_LOOK + 1, None), (20_000, None)])
def test_an_error_event_beyond_the_bound_is_not_looked_into(
    length: int, code: int | None, piece: int
) -> None:
    stream = CHUNK + padded_error(length) + CHUNK
    pieces = [stream[at : at + piece] for at in range(0, len(stream), piece)]
    assert scanned(*pieces).error_code == code
    assert scanned(*pieces, SECOND).error_code == 400, "the next one is"


def test_an_endless_line_is_given_up_on_and_not_held() -> None:
    scanner = scanned(b'data: {"error":', *[b"x" * 1000] * 50)
    assert len(scanner._tail) <= KEPT
    assert scanner._unjudged == 0


@pytest.mark.parametrize("piece", [1, 7, TAIL - 1, TAIL, TAIL + 1])
def test_usage_is_found_within_the_tail_and_not_beyond(piece: int) -> None:
    counts = b'"completion_tokens":4,"prompt_tokens":9'
    for room, usage in [(TAIL - len(counts), Usage(9, 4)), (TAIL - len(counts) + 1, Usage(9, None))]:
        stream = b"-" * 5000 + counts + b" " * room
        assert scanned(*[stream[at : at + piece] for at in range(0, len(stream), piece)]).usage() == usage


@pytest.mark.parametrize("end", [b"data: [DONE]", b"data: [DONE]\n\n", b"data:[DONE]\r\n\r\n"])
def test_the_end_mark_counts_with_and_without_its_blank_line(end: bytes) -> None:
    assert scanned(CHUNK, end).done is True
    assert scanned(CHUNK, end, CHUNK).done is False
