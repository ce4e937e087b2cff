"""What a server says of itself is taken from the window only, and nothing is asked that it does not have."""

from __future__ import annotations

from collections import Counter

import httpx

from router.bench.watch import Told, Watch
from tests.support.clock import FakeClock


class Server:
    """Answers with what was set; None: 404."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.length: float | None = 2.5
        self.loads: tuple[int, int] | None = (3, 1)
        self.broken = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.asked[path] += 1
        if self.broken:
            raise httpx.ReadTimeout("slow")
        if path == "/metrics" and self.length is not None:
            return httpx.Response(200, text=f"sglang:spec_accept_length{{}} {self.length}\n")
        if path == "/v1/loads" and self.loads is not None:
            running, waiting = self.loads
            return httpx.Response(
                200, json={"loads": [{"num_running_reqs": running, "num_waiting_reqs": waiting}]}
            )
        return httpx.Response(404)


def watching(server: Server, clock: FakeClock) -> Watch:
    http = httpx.AsyncClient(transport=httpx.MockTransport(server))
    return Watch(http, "http://a:1", None, clock)


async def test_means_and_the_most_of_the_window() -> None:
    server, clock = Server(), FakeClock(0.0)
    watch = watching(server, clock)
    for server.length, server.loads in ((9.0, (90, 0)), (2.0, (2, 0)), (3.0, (4, 5)), (9.0, (90, 0))):
        await watch.look()
        clock.advance(1.0)
    assert watch.told(1.0, 2.0) == Told(2.5, 9, 3.0)
    assert watch.told(10.0, 20.0) == Told()


async def test_what_is_not_there_is_asked_for_once() -> None:
    """A router has neither on its data port, and would count each as a refusal."""
    server, clock = Server(), FakeClock(0.0)
    server.length = server.loads = None
    watch = watching(server, clock)
    for _ in range(3):
        await watch.look()
    assert server.asked == {"/metrics": 1, "/v1/loads": 1}
    assert watch.told(0.0, 1.0) == Told()


async def test_what_was_late_once_is_asked_for_again() -> None:
    server, clock = Server(), FakeClock(0.0)
    server.broken = True
    watch = watching(server, clock)
    await watch.look()
    assert watch.told(0.0, 1.0) == Told()
    server.broken = False
    await watch.look()
    assert watch.told(0.0, 1.0) == Told(2.5, 4, 3.0)
