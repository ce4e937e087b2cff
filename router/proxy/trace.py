"""What a request tells of its way while it goes; how that becomes spans is for whoever is handed in.

Without a tracer a request holds None in place of a trace and asks for nothing else.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from router.core.events import Decision, RequestRecord
from router.core.headers import Headers

# What a trace context travels in (W3C Trace Context §3.2, §3.3).
CONTEXT = frozenset({b"traceparent", b"tracestate"})


class Trace(Protocol):
    """One request. Must be quick and must not raise. Times are of the running loop, in seconds."""

    def queue(self) -> AbstractContextManager[None]:
        """The request waits for its turn while this is open."""

    def attempt(self, decision: Decision, *, fresh: bool) -> AbstractContextManager[Headers]:
        """An engine is asked while this is open; what ends it says how it went.

        Args:
            decision: which engine, and why.
            fresh: on a new connection, because a kept one had been closed.

        Returns:
            The headers that carry the trace to the engine in place of the client's own.
        """

    def relay(self, first_byte: float | None) -> None:
        """An answer whose first byte came then is being passed on, until the attempt ends."""

    def end(self, record: RequestRecord) -> None:
        """The request ended."""


class Tracer(Protocol):
    """Begins traces."""

    def begin(self, headers: Headers, now: float) -> Trace:
        """A request came `now` with these headers, which may name a trace that it belongs to."""

    def close(self) -> None:
        """Send what has not been sent, within a few seconds. Blocks."""


def in_context(headers: Headers, context: Headers) -> Headers:
    """The headers with `context` in place of any trace context that they carried."""
    return [header for header in headers if header[0] not in CONTEXT] + context
