"""Closed loops in virtual time: `n` clients that each ask again as soon as they are answered."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from router.core.words import Path
from router.sim.engine import SimEngine
from router.sim.gpu import SimGpu
from router.sim.request import SimRequest
from router.sim.speed import Profile


def make_gpu(profile: Profile, *, seed: int = 1, max_queued_requests: int | None = None) -> SimGpu:
    """Both engines of a profile on one GPU."""
    return SimGpu(
        {
            path: SimEngine(
                profile.speed(path), Random(f"{seed}/{path.value}"), max_queued_requests=max_queued_requests
            )
            for path in Path
        }
    )


def tokens_per_second(
    gpu: SimGpu, clients: Mapping[Path, int], *, output_tokens: int = 256, seconds: float
) -> dict[Path, float]:
    """Aggregate output rate of each path after a fifth of `seconds` as warm-up."""
    owner: dict[SimRequest, Path] = {}
    gained = dict.fromkeys(clients, 0)
    warm = gpu.now + seconds / 5
    end = gpu.now + seconds

    def ask(path: Path) -> None:
        # Lengths differ, or all clients would end in lockstep.
        length = output_tokens + (len(owner) * 37) % 64
        request = SimRequest(f"{path.value}-{len(owner)}", 8, length)
        owner[request] = path
        gpu.submit(path, request)

    for path, count in clients.items():
        for _ in range(count):
            ask(path)
    while gpu.now < end:
        due = gpu.next_event_at()
        assert due is not None
        for delivery in gpu.advance(due):
            path = owner[delivery.request]
            if delivery.at > warm:
                gained[path] += delivery.tokens
            if delivery.finish is not None:
                ask(path)
    return {path: tokens / (gpu.now - warm) for path, tokens in gained.items()}
