"""Event streams and JSON answers in the byte shape of SGLang 0.5.23, and ways of splitting them."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable
from typing import Any

MODEL = "fake"
DONE = b"data: [DONE]\n\n"
SSE_HEADERS = (("content-type", "text/event-stream; charset=utf-8"), ("vary", "Origin"))
JSON_HEADERS = (("content-type", "application/json"),)


def compact(value: Any) -> bytes:
    """JSON without spaces and with non-ASCII characters as they are, like the engine's."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def event(payload: Any) -> bytes:
    """One `data:` event."""
    return b"data: " + compact(payload) + b"\n\n"


def _chunk(delta: dict[str, Any], finish: str | None, rid: str) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "matched_stop": None}
    return event(
        {
            "id": rid,
            "object": "chat.completion.chunk",
            "created": 1795964233,
            "model": MODEL,
            "choices": [choice],
        }
    )


def role(rid: str = "d982") -> bytes:
    """The first event of a chat stream."""
    return _chunk({"reasoning_content": None, "role": "assistant", "content": ""}, None, rid)


def content(text: str, rid: str = "d982") -> bytes:
    """An event with some text."""
    return _chunk({"reasoning_content": None, "content": text}, None, rid)


def finish(reason: str = "stop", rid: str = "d982") -> bytes:
    """The event with the finish reason."""
    return _chunk({"reasoning_content": None}, reason, rid)


def usage_object(completion: int, prompt: int = 37) -> dict[str, Any]:
    """The `usage` of a chat answer."""
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
        "completion_tokens_details": None,
    }


def usage(completion: int, rid: str = "d982") -> bytes:
    """The event with the usage, sent when the client asked for it."""
    head = {"id": rid, "object": "chat.completion.chunk", "created": 1795964233, "model": MODEL}
    return event({**head, "choices": [], "usage": usage_object(completion)})


def error_event(code: int, message: str = "The request queue is full.") -> bytes:
    """An error inside a stream; SGLang writes spaces here and nowhere else."""
    kind = "SERVICE_UNAVAILABLE" if code == 503 else "BAD_REQUEST"
    error = {"object": "error", "message": message, "type": kind, "param": None, "code": code}
    return b"data: " + json.dumps({"error": error}).encode() + b"\n\n"


def chat_events(
    texts: Iterable[str] = ("The", " capital", " is", " Paris."), *, tail: bool = True
) -> list[bytes]:
    """A whole chat stream, one event each; `tail` adds finish, usage and [DONE]."""
    pieces = [content(text) for text in texts]
    return [role(), *pieces, *([finish(), usage(len(pieces) + 1), DONE] if tail else [])]


def chat_answer(text: str = "The capital of France is Paris.", tokens: int = 8, **extra: Any) -> bytes:
    """The body of a non-streamed chat answer."""
    message = {"role": "assistant", "content": text, "reasoning_content": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop", "matched_stop": 2}
    return compact(
        {
            "id": "bfdc",
            "object": "chat.completion",
            "created": 1795964232,
            "model": MODEL,
            "choices": [choice],
            "usage": usage_object(tokens),
            "metadata": {"weight_version": "default"},
            **extra,
        }
    )


def error_body(code: int, message: str = "no good", kind: str = "BadRequestError") -> bytes:
    """SGLang's HTTP error body."""
    return compact({"object": "error", "message": message, "type": kind, "param": None, "code": code})


def chunked(*pieces: bytes, end: bool = True) -> bytes:
    """The pieces as HTTP chunks, with the last chunk if `end`."""
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece)
    return body + (b"0\r\n\r\n" if end else b"")


def split_every(data: bytes, size: int) -> list[bytes]:
    """Pieces of `size` bytes."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def split_at(data: bytes, *marks: bytes) -> list[bytes]:
    """Cut the data in the middle of every occurrence of each mark (after its first byte)."""
    cuts: set[int] = set()
    for mark in marks:
        at = data.find(mark)
        while at >= 0:
            cuts.update(range(at + 1, at + len(mark)))
            at = data.find(mark, at + 1)
    edges = [0, *sorted(cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def split_randomly(data: bytes, seed: int, most: int = 40) -> list[bytes]:
    """Pieces of 1 to `most` bytes, the same for the same seed."""
    rng = random.Random(seed)
    pieces, at = [], 0
    while at < len(data):
        size = rng.randint(1, most)
        pieces.append(data[at : at + size])
        at += size
    return pieces
