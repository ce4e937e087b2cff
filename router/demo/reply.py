"""What a client makes of an answer: whole and honest, or failed."""

from __future__ import annotations

import json
from dataclasses import dataclass

from router.core.words import Path

_DATA = b"data: "
_DONE = b"data: [DONE]"


@dataclass(frozen=True, slots=True)
class Reply:
    """One request as its client saw it. Times are monotonic seconds.

    Attributes:
        path: what `x-router-path` said; None if no answer came.
        started: when it was sent.
        first: when the first body byte came; None if none did.
        ended: when the answer was over.
        tokens: output tokens by the answer's usage; 0 for a failed one.
        problem: why it counts as failed; None if it does not.
    """

    path: Path | None
    started: float
    first: float | None
    ended: float
    tokens: int
    problem: str | None


def judge(status: int, body: bytes) -> tuple[int, str | None]:
    """(output tokens, problem) of a streamed answer: it needs status 200, `[DONE]` at its end, and usage."""
    if status != 200:
        return 0, f"status {status}"
    events = body.rstrip().split(b"\n\n")
    if events[-1] != _DONE:
        return 0, "the stream ended without [DONE]"
    if len(events) < 2:
        return 0, "the stream told no usage"
    try:
        last = json.loads(events[-2].removeprefix(_DATA))
        return int(last["usage"]["completion_tokens"]), None
    except (ValueError, KeyError, TypeError):
        return 0, "the stream told no usage"
