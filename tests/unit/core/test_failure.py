"""The failure table, row by row and as a whole."""

from __future__ import annotations

import json

import pytest

from router.core.failure import (
    TABLE,
    Effect,
    Failure,
    Kind,
    Replay,
    Source,
    classify_status,
    error_body,
    is_length_refusal,
)
from router.core.words import Outcome, Rejection

C, E, R = Source.CLIENT, Source.ENGINE, Source.ROUTER
NO, OTHER, SAME = Replay.NO, Replay.OTHER, Replay.SAME
FAULT, NEUTRAL = Effect.FAILURE, Effect.NEUTRAL
FAILED, CANCELLED, REJECTED = Outcome.FAILED, Outcome.CANCELLED, Outcome.REJECTED
INVALID, SERVER, LIMIT = "invalid_request_error", "server_error", "rate_limit_error"

# kind, its word, source, replay, status, error type, effect, outcome, rejection, Retry-After
ROWS = [
    (Kind.AUTH, "invalid_api_key", C, NO, 401, "authentication_error", NEUTRAL, REJECTED, "auth", False),
    (Kind.ROUTE, "unknown_route", C, NO, 404, INVALID, NEUTRAL, REJECTED, "route", False),
    (Kind.METHOD, "method_not_allowed", C, NO, 405, INVALID, NEUTRAL, REJECTED, "route", False),
    (Kind.SIZE, "request_too_large", C, NO, 413, INVALID, NEUTRAL, REJECTED, "size", False),
    (Kind.JSON, "invalid_json", C, NO, 400, INVALID, NEUTRAL, REJECTED, "json", False),
    (Kind.PATH_HEADER, "invalid_router_path", C, NO, 400, INVALID, NEUTRAL, REJECTED, "route", False),
    (Kind.BODY_TIMEOUT, "request_timeout", C, NO, 408, INVALID, NEUTRAL, CANCELLED, None, False),
    (Kind.CLIENT_GONE, "client_gone", C, NO, 499, INVALID, NEUTRAL, CANCELLED, None, False),
    (Kind.CLIENT_STALLED, "client_stalled", C, NO, 499, INVALID, NEUTRAL, CANCELLED, None, False),
    (Kind.SESSION, "sessions_not_supported", C, NO, 400, INVALID, NEUTRAL, REJECTED, "route", False),
    (Kind.CONFLICT, "conflicting_paths", C, NO, 400, INVALID, NEUTRAL, REJECTED, "route", False),
    (Kind.TOO_LONG, "context_length_exceeded", C, OTHER, 400, INVALID, NEUTRAL, FAILED, None, False),
    (Kind.STALE, "stale_connection", E, SAME, 502, SERVER, NEUTRAL, FAILED, None, False),
    (Kind.CONNECT, "engine_unreachable", E, OTHER, 503, SERVER, FAULT, FAILED, None, True),
    (Kind.CONNECT_TIMEOUT, "connect_timeout", E, OTHER, 503, SERVER, FAULT, FAILED, None, True),
    (Kind.RESET, "engine_reset", E, OTHER, 502, SERVER, FAULT, FAILED, None, False),
    (Kind.PROTOCOL, "engine_protocol_error", E, OTHER, 502, SERVER, FAULT, FAILED, None, False),
    (Kind.STATUS_5XX, "engine_error", E, OTHER, 502, SERVER, FAULT, FAILED, None, False),
    (Kind.BACK_PRESSURE, "engine_overloaded", E, OTHER, 503, SERVER, NEUTRAL, FAILED, None, True),
    (Kind.BROKEN, "engine_stream_broken", E, NO, 502, SERVER, FAULT, FAILED, None, False),
    (Kind.EVENT_ERROR, "engine_event_error", E, NO, 502, SERVER, NEUTRAL, FAILED, None, False),
    (Kind.FIRST_BYTE_TIMEOUT, "first_byte_timeout", E, NO, 504, SERVER, FAULT, FAILED, None, False),
    (Kind.IDLE_TIMEOUT, "idle_timeout", E, NO, 504, SERVER, FAULT, FAILED, None, False),
    (Kind.TOTAL_TIMEOUT, "total_timeout", E, NO, 504, SERVER, NEUTRAL, FAILED, None, False),
    (Kind.QUEUE_FULL, "queue_full", R, NO, 429, LIMIT, NEUTRAL, REJECTED, "queue_full", True),
    (Kind.QUEUE_TIMEOUT, "queue_timeout", R, NO, 503, SERVER, NEUTRAL, REJECTED, "queue_timeout", True),
    (Kind.BODY_MEMORY, "body_memory", R, NO, 429, LIMIT, NEUTRAL, REJECTED, "body_memory", True),
    (Kind.NO_ENGINE, "no_engine", R, NO, 503, SERVER, NEUTRAL, REJECTED, "no_engine", True),
    (Kind.ONLY_PATH, "path_unavailable", R, NO, 503, SERVER, NEUTRAL, REJECTED, "no_engine", True),
    (Kind.DRAIN, "draining", R, NO, 503, SERVER, NEUTRAL, REJECTED, "drain", True),
    (Kind.INTERNAL, "internal_error", R, NO, 500, SERVER, NEUTRAL, FAILED, None, False),
]


@pytest.mark.parametrize("expected", ROWS, ids=[row[1] for row in ROWS])
def test_what_follows_from_each_failure(expected: tuple[object, ...]) -> None:
    kind = expected[0]
    assert isinstance(kind, Kind)
    row = TABLE[kind]
    assert (
        kind,
        kind.value,
        row.source,
        row.replay,
        row.status,
        row.error_type,
        row.effect,
        row.outcome,
        row.rejection,
        row.retry_after,
    ) == expected


def test_every_kind_has_a_row_and_is_listed_here() -> None:
    assert set(TABLE) == set(Kind)
    assert [row[0] for row in ROWS] == list(Kind)


def test_every_rejection_but_none_else_can_come_out_of_the_table() -> None:
    assert {row.rejection for row in TABLE.values() if row.rejection} == set(Rejection)


def test_messages_are_whole_sentences_of_one_line_and_differ() -> None:
    messages = [row.message for row in TABLE.values()]
    assert all(message[0].isascii() and message.endswith(".") and "\n" not in message for message in messages)
    assert len(set(messages)) == len(messages)


def test_only_an_engine_s_fault_counts_against_it() -> None:
    blamed = {kind for kind, row in TABLE.items() if row.effect is Effect.FAILURE}
    assert all(TABLE[kind].source is Source.ENGINE for kind in blamed)
    assert not any(row.effect is Effect.SUCCESS for row in TABLE.values())


def test_slow_work_is_never_repeated() -> None:
    slow = [Kind.FIRST_BYTE_TIMEOUT, Kind.IDLE_TIMEOUT, Kind.TOTAL_TIMEOUT, Kind.BODY_TIMEOUT]
    assert {TABLE[kind].replay for kind in slow} == {Replay.NO}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (100, None),
        (200, None),
        (400, None),
        (404, None),
        (428, None),
        (429, Kind.BACK_PRESSURE),
        (430, None),
        (499, None),
        (500, Kind.STATUS_5XX),
        (502, Kind.STATUS_5XX),
        (503, Kind.BACK_PRESSURE),
        (504, Kind.STATUS_5XX),
        (599, Kind.STATUS_5XX),
    ],
)
def test_which_statuses_of_an_engine_are_failures(status: int, kind: Kind | None) -> None:
    assert classify_status(status) is kind


def test_a_failure_speaks_with_the_table_s_sentence_unless_it_has_its_own() -> None:
    plain = Failure(Kind.CONNECT)
    assert (plain.kind, plain.detail, plain.status) == (Kind.CONNECT, None, None)
    assert plain.row is TABLE[Kind.CONNECT]
    assert plain.message == "No engine could be reached."
    assert str(plain) == "engine_unreachable"
    detailed = Failure(Kind.STATUS_5XX, "The engine said 507.", status=507)
    assert (detailed.message, detailed.status) == ("The engine said 507.", 507)


@pytest.mark.parametrize("param", [None, "messages"])
def test_the_router_s_errors_have_openai_s_shape(param: str | None) -> None:
    body = error_body("No.", "server_error", "no_engine", *([param] if param else []))
    assert body == {"error": {"message": "No.", "type": "server_error", "param": param, "code": "no_engine"}}


TOO_LONG = [
    "The input (6031 tokens) is longer than the model's context length (4096 tokens).",
    "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total",
    "Input length (1711 tokens) exceeds the maximum allowed length (1594 tokens). Use a shorter input or",
]


def bodies(message: object, code: object = 400) -> list[bytes]:
    """The shapes in which SGLang's routes say it: flat, nested, native, Anthropic's."""
    flat = {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": code}
    inner = {"type": "invalid_request_error", "message": message}
    shapes = [flat, {"error": flat}, {"error": {"message": message}}, {"type": "error", "error": inner}]
    return [json.dumps(shape).encode() for shape in shapes]


@pytest.mark.parametrize("message", TOO_LONG)
def test_what_is_too_long_for_the_engine_is_recognised_in_every_shape(message: str) -> None:
    assert all(map(is_length_refusal, bodies(message)))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 100_000,
        b"null",
        b"[]",
        b"3",
        b'{"error": "Unauthorized"}',
        b'{"error": null}',
        b'{"message": 5}',
        b"{}",
        *bodies("temperature must be a non-negative finite number, got -1."),
        *bodies(
            "max_completion_tokens is too large: 100000.This model supports at most 4096 completion tokens."
        ),
        *bodies(f"1 validation error: input {TOO_LONG[0]}"),
        *bodies(None),
        bodies(TOO_LONG[0], 500)[0],
    ],
    ids=lambda body: repr(body[:50]),
)
def test_other_refusals_are_the_clients_to_read(body: bytes) -> None:
    assert is_length_refusal(body) is False
