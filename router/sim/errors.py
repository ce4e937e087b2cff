"""SGLang's error bodies: it has several, and which one comes depends on the route and on streaming."""

from __future__ import annotations

import json

import msgspec

_SOURCE = "/venv/lib/python3.11/site-packages/sglang/srt/entrypoints/http_server.py"
_HANDLERS = {
    "/v1/chat/completions": (1870, "openai_v1_chat_completions"),
    "/v1/completions": (1855, "openai_v1_completions"),
    "/v1/messages": (1990, "anthropic_v1_messages"),
    "/generate": (1004, "generate_request"),
    "/abort_request": (1721, "abort_request"),
}


class WireError(Exception):
    """A refusal before anything was generated: an HTTP status and a complete body."""

    def __init__(self, status: int, body: bytes, media_type: str = "application/json") -> None:
        super().__init__(body.decode())
        self.status = status
        self.body = body
        self.media_type = media_type


class EngineError(Exception):
    """The scheduler refused a request or gave it up: HTTP `code` for a plain request, an event of a stream
    with status 200.

    `prompt` and `completion` are the token counts that SGLang reports beside it.
    """

    def __init__(self, message: str, code: int, *, prompt: int = 0, completion: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.prompt = prompt
        self.completion = completion


class LengthError(EngineError):
    """A prompt that doesn't fit the context, noticed before the scheduler sees it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 400)


def flat(message: str, kind: str, code: int) -> bytes:
    """The OpenAI routes' body: the fields at the top level."""
    body = {"object": "error", "message": message, "type": kind, "param": None, "code": code}
    return msgspec.json.encode(body)


def bad_request(message: str, kind: str = "BadRequestError") -> WireError:
    """400 of the OpenAI routes."""
    return WireError(400, flat(message, kind, 400))


def anthropic(message: str, code: int) -> bytes:
    """The body of /v1/messages."""
    kind = "overloaded_error" if code == 503 else "invalid_request_error"
    shown = "Internal server error" if code >= 500 else message
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": shown}})


def openai(message: str, code: int) -> bytes:
    """The body with which an OpenAI route passes a refusal of the scheduler on."""
    return flat(message, "503" if code == 503 else "BadRequestError", code)


def native(message: str, code: int) -> bytes:
    """The body of the native /generate route, which borrows the OpenAI routes' for an overload."""
    if code == 503:
        return openai(message, code)
    return msgspec.json.encode({"error": {"message": message}})


def native_request(message: str) -> WireError:
    """400 of the native /generate route."""
    return WireError(400, native(message, 400))


def internal(message: str) -> WireError:
    """500 of the OpenAI routes: an exception in SGLang's handler."""
    return WireError(500, flat(f"Internal server error: {message}", "InternalServerError", 500))


def crashed() -> WireError:
    """500 without JSON: an exception outside of SGLang's own handling."""
    return WireError(500, b"Internal Server Error", "text/plain; charset=utf-8")


def stream_event(message: str, code: int) -> bytes:
    """An error inside a stream: nested, and with spaces, unlike every other event."""
    kind = "SERVICE_UNAVAILABLE" if code == 503 else "BAD_REQUEST"
    error = {"object": "error", "message": message, "type": kind, "param": None, "code": code}
    return b"data: " + json.dumps({"error": error}).encode() + b"\n\n"


def invalid(route: str, *details: dict[str, object]) -> WireError:
    """400 for a body that does not validate: the whole story, server paths and input included."""
    line, function = _HANDLERS.get(route, (1, "handler"))
    shown = "".join(f"  {detail}\n" for detail in details)
    count = f"{len(details)} validation error{'s' if len(details) > 1 else ''}:\n"
    where = f'\n  File "{_SOURCE}", line {line}, in {function}\n    POST {route} {list(details)}'
    return bad_request(count + shown + where, "Bad Request")


def missing(route: str, field: str, body: dict[str, object]) -> WireError:
    """400 for a required field that isn't there."""
    return invalid(route, {"type": "missing", "loc": ("body", field), "msg": "Field required", "input": body})


def unsupported_media_type() -> WireError:
    """400 (not 415) for a body that isn't announced as JSON."""
    detail = {
        "loc": ["header", "content-type"],
        "msg": "Unsupported Media Type: Only 'application/json' is allowed",
        "type": "value_error",
    }
    return bad_request(f"1 validation error:\n  {detail} {[detail]}", "Bad Request")


def undecodable(route: str, body: bytes) -> WireError:
    """400 for an empty body or one that is not JSON."""
    if not body:
        return invalid(route, {"type": "missing", "loc": ("body",), "msg": "Field required", "input": None})
    try:
        json.loads(body)
        position, reason = 0, "invalid"
    except json.JSONDecodeError as error:
        position = error.pos
        reason = "unexpected end of data" if error.pos >= len(error.doc) else error.msg
    except UnicodeDecodeError as error:
        position, reason = error.start, error.reason
    detail: dict[str, object] = {
        "type": "json_invalid",
        "loc": ("body", position),
        "msg": "JSON decode error",
        "input": {},
        "ctx": {"error": reason},
    }
    return invalid(route, detail)
