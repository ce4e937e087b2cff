"""One streamed request, timed, and judged as strictly as an operator would.

It goes over the router's own client to engines, since a tenth of the processor time per chunk of a general
client is the difference between measuring a server and measuring the client.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable

from router.bench.messages import Address, Answers, Sample
from router.core.failure import Failure, Kind
from router.core.scan import Scanner
from router.upstream.connection import Connection
from router.upstream.pool import Pool

CONNECT_TIMEOUT = 5.0
CHAT = "/v1/chat/completions"
PATH_HEADER = b"x-router-path"
EVENT_STREAM = "text/event-stream"
COMPLETIONS = "/v1/completions"
ROUTES = (CHAT, COMPLETIONS)

# Inside a JSON string the quotes would be escaped, so no generated text looks like these.
_CACHED = re.compile(rb'"cached_tokens"\s*:\s*(\d{1,12})')
_ABORTED = re.compile(rb'"finish_reason"\s*:\s*"abort"')
_TEXT = re.compile(rb'"(?:content|reasoning_content|text)"\s*:\s*"[^"]')
# The first event of a chat stream says whose turn it is and carries no token.
_NO_TOKEN = b'"content":""'
# The last ones: how it finished, the usage, the end mark. They may share a piece with a token.
_LAST = (b'"finish_reason":"', b'"usage":{', b"[DONE]")
# Pieces in which those are sought again, once all have come, for they may have been cut in two.
_LAST_PIECES = 8

Prompt = str | list[dict[str, str]]


def body(address: Address, answers: Answers, prompt: Prompt, max_tokens: int) -> bytes:
    """The request's bytes: streamed, with usage."""
    asked: dict[str, object] = {"model": address.model}
    if address.route == COMPLETIONS:
        asked["prompt"] = prompt if isinstance(prompt, str) else _joined(prompt)
    else:
        asked["messages"] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    asked |= {
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": max_tokens,
        "temperature": answers.temperature,
    }
    if answers.fixed:
        asked["ignore_eos"] = True
    return json.dumps(asked).encode()


def _joined(messages: list[dict[str, str]]) -> str:
    return "\n\n".join(message["content"] for message in messages)


def _named(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class Client:
    """Sends requests to one server. Make it inside a running event loop.

    Args:
        address: where they go.
        timeout: seconds for one answer.
        clock: monotonic seconds.

    Attributes:
        chunks: pieces of answers with text in them that have arrived so far.
    """

    def __init__(self, address: Address, timeout: float, clock: Callable[[], float]) -> None:
        key = f"authorization: Bearer {address.api_key}\r\n" if address.api_key else ""
        self._head = (
            f"POST {address.route} HTTP/1.1\r\nhost: {_named(address.host)}:{address.port}\r\n"
            f"content-type: application/json\r\naccept: text/event-stream\r\n{key}content-length: "
        ).encode()
        self._pool = Pool(address.host, address.port, connect_timeout=CONNECT_TIMEOUT)
        self._timeout = timeout
        self._clock = clock
        self.chunks = 0

    def close(self) -> None:
        """Close all connections; requests that are open fail."""
        self._pool.close()

    async def ask(self, sent: bytes, on_first: Callable[[], object] = lambda: None) -> Sample:
        """Send a request and read its answer to the end; what goes wrong is told in the sample.

        Args:
            sent: see `body`.
            on_first: called at the answer's first text.
        """
        answer = _Answer(self, self._clock, on_first)
        started = self._clock()
        try:
            async with asyncio.timeout(self._timeout):
                problem = await self._exchange(sent, answer)
        except TimeoutError:
            problem = "timeout"
        except Failure as failure:
            problem = str(failure.kind)
        return answer.sample(started, self._clock(), problem)

    async def _exchange(self, sent: bytes, answer: _Answer) -> str | None:
        try:
            return await self._once(sent, answer, fresh=False)
        except Failure as failure:
            if failure.kind is not Kind.STALE:
                raise
        # The server closed an idle connection as the request went out: that is no answer of its own.
        return await self._once(sent, answer, fresh=True)

    async def _once(self, sent: bytes, answer: _Answer, *, fresh: bool) -> str | None:
        connection = await self._pool.acquire(fresh=fresh)
        try:
            await connection.send(self._head + b"%d\r\n\r\n" % len(sent), sent)
            return await answer.read(connection)
        except BaseException:
            connection.close()
            raise
        finally:
            self._pool.release(connection)


class _Answer:
    def __init__(self, client: Client, clock: Callable[[], float], on_first: Callable[[], object]) -> None:
        self._client = client
        self._clock = clock
        self._on_first = on_first
        self._first: float | None = None
        self._chunks: list[float] = []
        self._scanner = Scanner(streamed=True)
        self._latest: deque[bytes] = deque(maxlen=_LAST_PIECES)
        self._path: str | None = None

    async def read(self, connection: Connection) -> str | None:
        """Read to the end; the reason why it counts as failed, or None."""
        headers = {name: value.decode("latin-1") for name, value in connection.headers}
        self._path = headers.get(PATH_HEADER)
        if connection.status != 200:
            await _discard(connection)
            return f"status {connection.status}"
        if not headers.get(b"content-type", EVENT_STREAM).startswith(EVENT_STREAM):
            await _discard(connection)
            return "no event stream"
        while connection.flowing:
            await connection.pour(self._take)
        while data := await connection.read():
            self._take(data)
        return self._judged()

    def _take(self, data: bytes) -> bool:
        now = self._clock()
        self._scanner.feed(data)
        self._latest.append(data)
        if not _carries_token(data):
            return True
        if self._first is None:
            self._first = now
            self._on_first()
        self._chunks.append(now)
        self._client.chunks += 1
        return True

    def _judged(self) -> str | None:
        if (code := self._scanner.error_code) is not None:
            return f"error event {code}"
        if _ABORTED.search(self._end()):
            return "aborted by the server"
        if not self._latest:
            return "empty"
        if not self._scanner.done:
            return "no end mark"
        usage = self._scanner.usage()
        if usage.completion_tokens is None:
            return "no usage" if self._chunks else "empty"
        return None if usage.completion_tokens else "empty"

    def sample(self, started: float, ended: float, problem: str | None) -> Sample:
        usage = self._scanner.usage()
        cached = _CACHED.findall(self._end())
        return Sample(
            started,
            self._first,
            ended,
            0 if problem else usage.completion_tokens or 0,
            usage.prompt_tokens or 0,
            int(cached[-1]) if cached else None,
            problem,
            self._chunks,
            self._path,
        )

    def _end(self) -> bytes:
        return b"".join(self._latest)


def _carries_token(data: bytes) -> bool:
    """Whether some of the answer's text is in a piece of its stream."""
    if any(mark in data for mark in _LAST):
        return _TEXT.search(data) is not None
    return _NO_TOKEN not in data or data.count(b"data:") > 1


async def _discard(connection: Connection) -> None:
    while await connection.read():
        pass
