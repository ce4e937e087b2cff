"""Looking on while an answer passes: usage, errors, the end mark. Never holding it up, in bounded memory.

A transport chunk is no unit of meaning, so nothing here waits for one to be complete: the scanner
keeps the last few KiB of what went by and reads them once, at the end. Bytes are never decoded; a
character or an event that is cut in two is none of our business.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

# The final usage event, or the tail of a whole JSON answer behind its `usage`, fits well into this.
TAIL = 4096
# The tail grows to this size before it is looked through and cut back: most chunks cost a copy, no more.
KEPT = TAIL + 2048
# An error event of SGLang is a few hundred bytes; a longer one is not looked into.
ERROR_LOOK = 4096

# Two line ends in a row; atomic, so that one CRLF is never read as two.
_EVENT_END = re.compile(rb"(?>\r\n|\n|\r){2}")
# Sought as a pattern, which is twice as fast here as `bytes.count`.
_BLANK_LINE = re.compile(rb"\n\n")
_COMPLETION = re.compile(rb'"(?:completion|output)_tokens"\s*:\s*(\d{1,12})')
_PROMPT = re.compile(rb'"(?:prompt|input)_tokens"\s*:\s*(\d{1,12})')
_ERROR_KEY = b'"error"'
# As much of one side as a key cut in two by a chunk's end can have.
_SEAM = len(_ERROR_KEY) - 1


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the engine said them; None where it said nothing."""

    prompt_tokens: int | None
    completion_tokens: int | None


def event_end(data: bytes | bytearray) -> int | None:
    """Where the first event of a stream ends (offset behind its blank line), or None if it has not yet.

    All line endings of the event-stream grammar (HTML standard §9.2.6) are taken: LF, CRLF, CR, mixed.
    """
    found = _EVENT_END.search(data)
    return found.end() if found else None


def event_data(event: bytes | bytearray) -> bytes:
    """The data of an event: what follows `data:` on its lines."""
    lines = re.split(rb"\r\n|\n|\r", bytes(event))
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))


def event_error_code(event: bytes | bytearray) -> int | None:
    """The code of an event that carries an error, else None; an error without a number counts as 500.

    SGLang nests it: `{"error": {..., "code": 503}}`. `/generate` may instead end a normal chunk with
    `finish_reason: {"type": "abort", "status_code": 503}`.
    """
    data = event_data(event)
    if _ERROR_KEY not in data and b'"abort"' not in data:
        return None
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if error:
        code = error.get("code") if isinstance(error, dict) else None
        return code if isinstance(code, int) and not isinstance(code, bool) else 500
    return _abort_status(body)


def _abort_status(body: dict[str, object]) -> int | None:
    meta = body.get("meta_info")
    reason = meta.get("finish_reason") if isinstance(meta, dict) else None
    if not isinstance(reason, dict) or reason.get("type") != "abort":
        return None
    status = reason.get("status_code")
    return status if isinstance(status, int) and not isinstance(status, bool) else None


def last_usage(tail: bytes | bytearray) -> Usage:
    """The last token counts in the tail of an answer.

    Searching bytes is safe: inside a JSON string the quotes would be escaped, so generated text
    cannot fake a key.
    """
    return Usage(_last_number(_PROMPT, tail), _last_number(_COMPLETION, tail))


def _last_number(pattern: re.Pattern[bytes], tail: bytes | bytearray) -> int | None:
    numbers: list[bytes] = pattern.findall(tail)
    return int(numbers[-1]) if numbers else None


class Scanner:
    """Watches one answer.

    Args:
        streamed: the answer is an event stream.
    """

    __slots__ = ("_error_code", "_events", "_looked", "_streamed", "_tail", "_unjudged")

    def __init__(self, *, streamed: bool) -> None:
        self._streamed = streamed
        self._tail = bytearray()
        self._looked = 0
        self._unjudged = 0
        self._error_code: int | None = None
        self._events = 0

    def feed(self, data: bytes) -> None:
        """Take note of bytes that pass."""
        self._tail += data
        if len(self._tail) > KEPT:
            self._look()
            del self._tail[:-TAIL]
            self._looked = TAIL

    def _look(self) -> None:
        """Look through what came since the last look (from `_looked` on)."""
        tail, began = self._tail, self._looked
        if self._streamed and began < len(tail):
            # From a little before, for a blank line or a key that is cut in two.
            self._events += len(_BLANK_LINE.findall(tail, max(0, began - 1)))
            if self._unjudged or tail.find(_ERROR_KEY, max(0, began - _SEAM)) >= 0:
                self._judge_errors(began)
        self._looked = len(tail)

    def _judge_errors(self, began: int) -> None:
        """Read each event that names an error, once its end has passed, from the line that names it.

        The tail holds what looks have cut off: the start of that line, and all of an event that is not
        yet complete (`_unjudged` bytes); what is new begins at `began`.
        """
        seen = self._tail
        look = max(0, began - (self._unjudged or _SEAM))
        floor = look if self._unjudged else 0
        self._unjudged = 0
        while (at := seen.find(_ERROR_KEY, look)) >= 0:
            begin = max(floor, seen.rfind(b"\n", floor, at) + 1, seen.rfind(b"\r", floor, at) + 1)
            event = seen[begin : begin + ERROR_LOOK]
            end = event_end(event)
            if end is None and len(event) < ERROR_LOOK:
                self._unjudged = len(event)
                return
            code = event_error_code(event[:end]) if end else None
            if code is not None:
                self._error_code = code
            look = floor = begin + (end or ERROR_LOOK)

    @property
    def error_code(self) -> int | None:
        """The code of the latest event that carried an error; None if none did."""
        self._look()
        return self._error_code

    @property
    def events(self) -> int:
        """Events so far: blank lines of a stream."""
        self._look()
        return self._events

    @property
    def done(self) -> bool:
        """True if the stream's end mark has passed."""
        return self._tail[-TAIL:].rstrip().endswith(b"[DONE]")

    def usage(self) -> Usage:
        """Token counts; read once, when the answer has ended."""
        return last_usage(self._tail[-TAIL:])

    @property
    def content_events(self) -> int:
        """Events that carried content: all but the role, the finish and the end mark of a chat stream."""
        return max(0, self.events - 3)
