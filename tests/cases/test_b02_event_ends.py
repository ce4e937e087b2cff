"""B-02: only `\\n\\n` is taken for the end of an event.

Right value: bytes unchanged, and each event's last byte reaches the client at once. The HTML standard's
event-stream grammar allows CRLF, LF and CR, any mixture, and makes the space after `data:` optional; a
relay that waits for one kind of ending holds the others back.
"""

from __future__ import annotations

import pytest

from .kit import limits
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine
from .kit.exchange import lockstep
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.sdk import SDKS, Sdk, sdk_chat
from .kit.sse import DONE, chat_events, content

LINES = [content(text).rstrip(b"\n") for text in ("one", "two", "three", "four", "five")]
THREE_LINES = b'data: {"id":"d982",\ndata: "object":"chat.completion.chunk",\ndata: "choices":[]}\n\n'

NEVER_OVER = ("single_newline_only", "no_ending_at_all")  # as events; as bytes they are relayed
VARIANTS: dict[str, list[list[bytes]]] = {  # events, each as the segments it is sent in
    "crlf": [[line + b"\r\n\r\n"] for line in LINES],
    "cr": [[line + b"\r\r"] for line in LINES],
    "mixed": [[line + b"\n\r\n"] for line in LINES],
    "mixed_other": [
        [line + end]
        for line, end in zip(LINES, [b"\r\n\r", b"\r\n\n", b"\n\r", b"\r\n\n", b"\n\n"], strict=True)
    ],
    "crlf_split": [[line + b"\r", b"\n\r", b"\n"] for line in LINES],
    "cr_split": [[line + b"\r", b"\r"] for line in LINES],
    "no_space": [[line.replace(b"data: ", b"data:") + b"\n\n"] for line in LINES],
    "three_data_lines": [[THREE_LINES] for _ in LINES],
    "event_and_id_fields": [[b"event: message\nid: 7\n" + line + b"\n\n"] for line in LINES],
    "comments_between": [[b": ping\n\n", line + b"\n\n", b":\n"] for line in LINES],
    "single_newline_only": [[line + b"\n"] for line in LINES],
    "no_ending_at_all": [[line] for line in LINES],
}


def joined(events: list[list[bytes]]) -> bytes:
    """The body that the segments make up."""
    return b"".join(b"".join(segments) for segments in events)


@pytest.mark.parametrize("variant", VARIANTS)
async def test_each_event_at_once(router: RouterProcess, a: FakeEngine, variant: str) -> None:
    """B-02 (a)-(f) and kin: unchanged, and no event waits for the next one."""
    events = [[content("x")], *VARIANTS[variant]]
    seen = await lockstep(router, a, events)
    assert bytes(seen.response.body) == joined(events)
    assert max(seen.delays()) <= limits.EVENT_DELAY


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name not in NEVER_OVER])
async def test_first_event_at_once(router: RouterProcess, a: FakeEngine, variant: str) -> None:
    """B-02 where the odd ending is the first event's: the response starts when that event is over."""
    events = VARIANTS[variant]
    seen = await lockstep(router, a, events)
    assert bytes(seen.response.body) == joined(events)


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r", b"\r\n"], ids=["none", "lf", "cr", "crlf"])
@pytest.mark.parametrize("count", [1, 5])
async def test_no_blank_line_at_the_end(
    router: RouterProcess, a: FakeEngine, ending: bytes, count: int
) -> None:
    """B-02 (g): a last (or only) event followed by the end of the body, without a blank line."""
    events = [[line + b"\n\n"] for line in LINES[: count - 1]]
    seen = await lockstep(router, a, events, tail=LINES[-1] + ending)
    assert bytes(seen.response.body) == b"".join(e[0] for e in events) + LINES[-1] + ending


@pytest.mark.parametrize(
    "body", [b"", b"\n", b": only a comment\n\n", DONE], ids=["empty", "lf", "comment", "done"]
)
async def test_streams_without_an_event(router: RouterProcess, a: FakeEngine, body: bytes) -> None:
    """Kin of B-02: a stream with no event at all still ends, with its bytes as they are."""
    seen = await lockstep(router, a, [], tail=body)
    assert bytes(seen.response.body) == body
    assert seen.response.status == 200


@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("newline", [b"\r\n", b"\r"], ids=["crlf", "cr"])
async def test_sdk_reads_other_endings(
    router: RouterProcess, a: FakeEngine, sdk: Sdk, newline: bytes
) -> None:
    """B-02 seen by the stock SDKs: whole text, right end."""
    events = [event.replace(b"\n", newline) for event in chat_events(("a", "b"))]

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.stream(events, gap=0.01)

    a.script = script
    direct = await sdk_chat(sdk, a.port, stream=True)
    assert await sdk_chat(sdk, router.data_port, stream=True) == direct


async def test_quiet(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Nothing is left behind."""
    await assert_quiet(router, a, b)
