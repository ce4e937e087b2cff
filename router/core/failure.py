"""The failure model: every way a request can go wrong, classified once.

A failure is a kind; the table gives each kind its source (who is to blame), whether and where the
request may be tried again, the HTTP status and OpenAI error the client gets when nothing has been
sent yet, what it does to the engine's breaker, and the outcome of the lease.

What the table must keep true:

* a client's mistake and a client that leaves never count against an engine;
* 429 and 503 of an engine are back-pressure: tried once elsewhere, breaker unmoved;
* a time limit is never retried: repeating slow work is what makes a retry storm;
* nothing is retried after the engine's first body byte;
* a prompt that speculation has no room for may fit the baseline, so that refusal alone, of all 4xx, is
  tried once there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum

from router.core.words import Outcome, Rejection


class Source(StrEnum):
    """Who caused a failure."""

    CLIENT = "client"
    ENGINE = "engine"
    ROUTER = "router"


class Replay(StrEnum):
    """Where a request may be tried once more."""

    NO = "no"
    OTHER = "other"  # once, on the other path
    SAME = "same"  # once, on a fresh connection to the same engine


class Effect(StrEnum):
    """What an event does to an engine's breaker."""

    FAILURE = "failure"
    NEUTRAL = "neutral"
    SUCCESS = "success"


class Kind(StrEnum):
    """All ways to fail. The values are metric labels and the `code` of the router's own errors."""

    # the client's
    AUTH = "invalid_api_key"
    ROUTE = "unknown_route"
    METHOD = "method_not_allowed"
    SIZE = "request_too_large"
    JSON = "invalid_json"
    PATH_HEADER = "invalid_router_path"
    BODY_TIMEOUT = "request_timeout"
    CLIENT_GONE = "client_gone"
    CLIENT_STALLED = "client_stalled"
    SESSION = "sessions_not_supported"
    CONFLICT = "conflicting_paths"
    # the engine's
    TOO_LONG = "context_length_exceeded"
    STALE = "stale_connection"
    CONNECT = "engine_unreachable"
    CONNECT_TIMEOUT = "connect_timeout"
    RESET = "engine_reset"
    PROTOCOL = "engine_protocol_error"
    STATUS_5XX = "engine_error"
    BACK_PRESSURE = "engine_overloaded"
    BROKEN = "engine_stream_broken"
    EVENT_ERROR = "engine_event_error"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    # the router's
    QUEUE_FULL = "queue_full"
    QUEUE_TIMEOUT = "queue_timeout"
    BODY_MEMORY = "body_memory"
    NO_ENGINE = "no_engine"
    ONLY_PATH = "path_unavailable"
    DRAIN = "draining"
    INTERNAL = "internal_error"


@dataclass(frozen=True, slots=True)
class Row:
    """What follows from a failure of one kind. `status` is an HTTP status."""

    source: Source
    replay: Replay
    status: int
    error_type: str
    effect: Effect
    outcome: Outcome
    message: str
    rejection: Rejection | None = None
    retry_after: bool = False


_INVALID = "invalid_request_error"
_SERVER = "server_error"
_LIMIT = "rate_limit_error"


def _client(status: int, message: str, rejection: Rejection | None = None, error_type: str = _INVALID) -> Row:
    outcome = Outcome.REJECTED if rejection else Outcome.CANCELLED
    return Row(Source.CLIENT, Replay.NO, status, error_type, Effect.NEUTRAL, outcome, message, rejection)


def _engine(
    replay: Replay, status: int, message: str, effect: Effect = Effect.FAILURE, retry_after: bool = False
) -> Row:
    return Row(
        Source.ENGINE, replay, status, _SERVER, effect, Outcome.FAILED, message, retry_after=retry_after
    )


def _router(status: int, error_type: str, message: str, rejection: Rejection | None) -> Row:
    outcome = Outcome.REJECTED if rejection else Outcome.FAILED
    return Row(
        Source.ROUTER,
        Replay.NO,
        status,
        error_type,
        Effect.NEUTRAL,
        outcome,
        message,
        rejection,
        retry_after=rejection is not None,
    )


TABLE: dict[Kind, Row] = {
    Kind.AUTH: _client(
        401, "Incorrect API key: send `Authorization: Bearer <key>`.", Rejection.AUTH, "authentication_error"
    ),
    Kind.ROUTE: _client(404, "Unknown route.", Rejection.ROUTE),
    Kind.METHOD: _client(405, "This route does not take that method.", Rejection.ROUTE),
    Kind.SIZE: _client(413, "The request body is too large.", Rejection.SIZE),
    Kind.JSON: _client(400, "The request body is not a JSON object.", Rejection.JSON),
    Kind.PATH_HEADER: _client(400, "x-router-path must be speculative, baseline or auto.", Rejection.ROUTE),
    Kind.BODY_TIMEOUT: _client(408, "The request body did not arrive in time."),
    Kind.CLIENT_GONE: _client(499, "The client left."),
    Kind.CLIENT_STALLED: _client(499, "The client stopped reading."),
    Kind.SESSION: _client(
        400,
        "Sessions (session_params) live in one engine and are not served here; send the whole prompt.",
        Rejection.ROUTE,
    ),
    Kind.CONFLICT: _client(
        400,
        "This request continues a response that another engine holds than the one it needs.",
        Rejection.ROUTE,
    ),
    Kind.TOO_LONG: Row(
        Source.CLIENT,
        Replay.OTHER,
        400,
        _INVALID,
        Effect.NEUTRAL,
        Outcome.FAILED,
        "The prompt and the answer it asks for are too long for the model.",
    ),
    Kind.STALE: _engine(Replay.SAME, 502, "The engine closed the connection.", Effect.NEUTRAL),
    Kind.CONNECT: _engine(Replay.OTHER, 503, "No engine could be reached.", retry_after=True),
    Kind.CONNECT_TIMEOUT: _engine(Replay.OTHER, 503, "No engine accepted the request.", retry_after=True),
    Kind.RESET: _engine(Replay.OTHER, 502, "The engine closed the connection without an answer."),
    Kind.PROTOCOL: _engine(Replay.OTHER, 502, "The engine sent a malformed answer."),
    Kind.STATUS_5XX: _engine(Replay.OTHER, 502, "The engine failed."),
    Kind.BACK_PRESSURE: _engine(
        Replay.OTHER, 503, "The engine is overloaded.", Effect.NEUTRAL, retry_after=True
    ),
    Kind.BROKEN: _engine(Replay.NO, 502, "The engine broke off in the middle of its answer."),
    Kind.EVENT_ERROR: _engine(Replay.NO, 502, "The engine reported an error in its answer.", Effect.NEUTRAL),
    Kind.FIRST_BYTE_TIMEOUT: _engine(Replay.NO, 504, "The engine sent nothing within the first-byte limit."),
    Kind.IDLE_TIMEOUT: _engine(Replay.NO, 504, "The engine fell silent in the middle of its answer."),
    Kind.TOTAL_TIMEOUT: _engine(
        Replay.NO, 504, "The answer took longer than the total limit.", Effect.NEUTRAL
    ),
    Kind.QUEUE_FULL: _router(429, _LIMIT, "Too many requests are waiting.", Rejection.QUEUE_FULL),
    Kind.QUEUE_TIMEOUT: _router(503, _SERVER, "No engine became free in time.", Rejection.QUEUE_TIMEOUT),
    Kind.BODY_MEMORY: _router(429, _LIMIT, "Too many request bodies are held.", Rejection.BODY_MEMORY),
    Kind.NO_ENGINE: _router(503, _SERVER, "No engine is available.", Rejection.NO_ENGINE),
    Kind.ONLY_PATH: _router(
        503, _SERVER, "The only engine that can serve this request is not available.", Rejection.NO_ENGINE
    ),
    Kind.DRAIN: _router(503, _SERVER, "The router is shutting down.", Rejection.DRAIN),
    Kind.INTERNAL: _router(500, _SERVER, "The router failed.", None),
}


class Failure(Exception):
    """A classified failure, raised where it is noticed and handled where the request ends.

    Args:
        kind: its row in the table.
        detail: one sentence for the client in place of the table's; never a secret, address or prompt.
        status: the engine's own status where it had one.
    """

    def __init__(self, kind: Kind, detail: str | None = None, *, status: int | None = None) -> None:
        super().__init__(kind.value)
        self.kind = kind
        self.detail = detail
        self.status = status

    @property
    def row(self) -> Row:
        """The table's row of this kind."""
        return TABLE[self.kind]

    @property
    def message(self) -> str:
        """The sentence for the client."""
        return self.detail or self.row.message


def classify_status(status: int) -> Kind | None:
    """The failure that an engine's status (HTTP, or `code` of a first error event) means; None: pass it on.

    SGLang says 503 for a full queue; 429 is what other servers say. 4xx is the client's own mistake.
    """
    if status in (429, 503):
        return Kind.BACK_PRESSURE
    return Kind.STATUS_5XX if status >= 500 else None


# How SGLang says that a request is too long where the paths may differ (0.5.16 to 0.5.23): EAGLE reserves
# tokens for its draft, and each engine has a pool of its own. `max_tokens` above the context is refused by
# both alike and is not among these.
LENGTH_MESSAGES = (
    re.compile(r"The input \(\d+ tokens\) is longer than the model's context length"),
    re.compile(r"Requested token count exceeds the model's maximum context length"),
    re.compile(r"Input length \(\d+ tokens\) exceeds the maximum allowed length"),
)


def is_length_refusal(body: bytes) -> bool:
    """True for the JSON of an error, the body of a 400 or an event's data, that says the request is too long.

    The shape depends on the route: fields at the top or under `error`, with or without a code.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    error = answer.get("error") if isinstance(answer, dict) else None
    said = error if isinstance(error, dict) else answer
    if not isinstance(said, dict) or said.get("code", 400) != 400:
        return False
    message = said.get("message")
    return isinstance(message, str) and any(pattern.match(message) for pattern in LENGTH_MESSAGES)


def error_body(message: str, error_type: str, code: str, param: str | None = None) -> dict[str, object]:
    """The body of an OpenAI-shaped error."""
    return {"error": {"message": message, "type": error_type, "param": param, "code": code}}
