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
# An error event of SGLang is a few hundred bytes; a longer one is not looked into.
ERROR_LOOK = 4096

_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n|\r\n\n|\n\r|\r\n\r")
_COMPLETION = re.compile(rb'"(?:completion|output)_tokens"\s*:\s*(\d{1,12})')
_PROMPT = re.compile(rb'"(?:prompt|input)_tokens"\s*:\s*(\d{1,12})')
_ERROR_KEY = b'"error"'


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


def event_error_code(event: bytes | bytearray) -> int | None:
    """The code of an event that carries an error, else None; an error without a number counts as 500.

    SGLang nests it: `{"error": {..., "code": 503}}`. `/generate` may instead end a normal chunk with
    `finish_reason: {"type": "abort", "status_code": 503}`.
    """
    lines = re.split(rb"\r\n|\n|\r", bytes(event))
    data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
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

    __slots__ = ("_error_buffer", "_streamed", "_tail", "error_code", "events")

    def __init__(self, *, streamed: bool) -> None:
        self._streamed = streamed
        self._tail = b""
        self._error_buffer: bytearray | None = None
        self.error_code: int | None = None
        self.events = 0

    def feed(self, data: bytes) -> None:
        """Take note of bytes that pass."""
        if self._streamed:
            self.events += data.count(b"\n\n")
            if self._error_buffer is not None or _ERROR_KEY in data:
                self._look_for_error(data)
        self._tail = data[-TAIL:] if len(data) >= TAIL else (self._tail + data)[-TAIL:]

    def _look_for_error(self, data: bytes) -> None:
        """Collect from the line that names an error to the end of its event, then read it once."""
        buffer = self._error_buffer
        if buffer is None:
            begin = data.rfind(b"\n", 0, data.find(_ERROR_KEY)) + 1
            buffer = bytearray(data[begin : begin + ERROR_LOOK])
        else:
            buffer += data[: ERROR_LOOK - len(buffer)]
        end = event_end(buffer)
        if end is None and len(buffer) < ERROR_LOOK:
            self._error_buffer = buffer
            return
        self._error_buffer = None
        code = event_error_code(buffer[:end]) if end else None
        if code is not None:
            self.error_code = code

    @property
    def done(self) -> bool:
        """True if the stream's end mark has passed."""
        return self._tail.rstrip().endswith(b"[DONE]")

    def usage(self) -> Usage:
        """Token counts; read once, when the answer has ended."""
        return last_usage(self._tail)

    @property
    def content_events(self) -> int:
        """Events that carried content: all but the role, the finish and the end mark of a chat stream."""
        return max(0, self.events - 3)
