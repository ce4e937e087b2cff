"""Logs: one form for all libraries, and nothing in them that is not the operator's to see.

Never logged: headers, bodies, query strings, addresses of engines, keys. What libraries say passes
through the same filter as our own lines.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from router.core.events import Decision, RequestRecord
from router.core.failure import Kind
from router.core.policy import Switch
from router.core.words import Outcome, Path, Rejection

Format = Literal["auto", "text", "json"]

_PRIVATE = frozenset(
    {"api_key", "authorization", "body", "cookie", "headers", "password", "prompt", "query", "token", "url"}
)
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://[^\s'\"<>]+", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer|basic)\s+[^\s'\",;]+", re.IGNORECASE)
_QUERY = re.compile(r"(?<=/)([^\s?'\"]*)\?[^\s'\"]+")
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127) if code not in (9, 10)}

# Libraries that log each request with its URL.
_QUIET = ("httpx", "httpcore", "uvicorn.access", "uvicorn.error", "asyncio")


def configure(level: str, form: Format, stream: TextIO) -> None:
    """Send all logs of the process to `stream`.

    Args:
        level: debug, info, warning or error.
        form: `text`, `json`, or `auto`: text on a terminal, else JSON, one object a line.
        stream: usually stderr.
    """
    text = form == "text" or (form == "auto" and stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        # The level is judged by the standard loggers, so that a reload reaches loggers that exist already.
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                # Plain tracebacks: the richer ones print local variables, prompts and keys among them.
                structlog.processors.format_exc_info,
                redact,
                _renderer(text, stream),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _renderer(text: bool, stream: TextIO) -> Processor:
    if text:
        return structlog.dev.ConsoleRenderer(
            colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    return structlog.processors.JSONRenderer(sort_keys=False)


def redact(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Drop fields that must never be logged and clean the text of the others."""
    traceback = event.pop("exception", None)
    cleaned = {key: _clean(value) for key, value in event.items() if key.lower() not in _PRIVATE}
    if traceback is not None:
        cleaned["exception"] = _without_secrets(str(traceback))
    return cleaned


def _clean(value: object) -> object:
    """The value without secrets, and without line breaks: they would let an author write log lines."""
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _clean(item) for key, item in value.items()}
    return _without_secrets(str(value)).replace("\n", "\\n")


def _without_secrets(text: str) -> str:
    text = _BEARER.sub(r"\1 [redacted]", _QUERY.sub(r"\1", _URL.sub("[address]", text)))
    return text.translate(_CONTROL)


class LogObserver:
    """An `Observer` that writes a line per switch, per failure and, at debug, per request.

    Args:
        log: where to.
        pair: name of the pair.
        wants: whether lines of a level are written; asked once a request, before its line is made.
    """

    def __init__(
        self, log: FilteringBoundLogger, pair: str, wants: Callable[[int], bool] = lambda level: True
    ) -> None:
        self._log = log.bind(pair=pair)
        self._wants = wants

    def on_decision(self, decision: Decision) -> None:
        """Not logged: the line of the request says it."""

    def on_retry(self, origin: Path, target: Path, kind: Kind) -> None:
        """See `Observer`."""
        self._log.debug("retry", origin=origin.value, target=target.value, reason=kind.value)

    def on_switch(self, switch: Switch) -> None:
        """See `Observer`."""
        self._log.info(
            "switch",
            origin=switch.origin.value,
            target=switch.target.value,
            reason=switch.reason.value,
            n=switch.n,
            smoothed_n=round(switch.smoothed_n, 2),
            excess=switch.excess,
        )

    def on_rejected(self, reason: Rejection) -> None:
        """Not logged: the line of the request says it."""

    def on_finished(self, record: RequestRecord) -> None:
        """See `Observer`."""
        level = logging.INFO if record.outcome is Outcome.FAILED else logging.DEBUG
        if not self._wants(level):
            return
        self._log.log(
            level,
            "request",
            request_id=record.request_id,
            route=record.route,
            path=record.path and record.path.value,
            reason=record.reason and record.reason.value,
            outcome=record.outcome.value,
            kind=record.kind and record.kind.value,
            status=record.status,
            queued_for=round(record.queued_for, 4),
            first_byte=record.first_byte and round(record.first_byte, 4),
            duration=round(record.duration, 4),
            prompt_tokens=record.prompt_tokens,
            completion_tokens=record.completion_tokens,
            streamed=record.streamed,
        )
