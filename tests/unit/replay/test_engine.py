"""The engine that jumps against the engine that walks: the same physics."""

from __future__ import annotations

from random import Random

import pytest

from router.core.words import Path
from router.replay.engine import Job, JumpEngine, JumpGpu, Mode
from router.sim.engine import SimEngine
from router.sim.gpu import SimGpu
from router.sim.profiles import load_profile
from router.sim.request import SimRequest
from router.sim.speed import Curve, EngineSpeed

SPECULATIVE, BASELINE = Path

Arrival = tuple[float, Path, int, int]  # time, path, prompt and output tokens


def arrivals(paths: tuple[Path, ...], rate: float, count: int, seed: int) -> list[Arrival]:
    rng, now, found = Random(seed), 0.0, []
    for _ in range(count):
        now += rng.expovariate(rate)
        found.append((now, rng.choice(paths), rng.randrange(1, 400), rng.randrange(1, 300)))
    return found


def walked(speeds: dict[Path, EngineSpeed], given: list[Arrival]) -> tuple[list[float], float]:
    """When each request ends, and the mixed seconds."""
    gpu = SimGpu({path: SimEngine(speed, Random(1)) for path, speed in speeds.items()})
    requests: list[SimRequest] = []
    for at, path, prompt, output in given:
        gpu.advance(at)
        request = SimRequest(str(len(requests)), prompt, output)
        requests.append(request)
        gpu.submit(path, request)
    gpu.advance(1e9)
    return [request.finished_at for request in requests], gpu.mixed_seconds


def jumped(speeds: dict[Path, EngineSpeed], given: list[Arrival]) -> tuple[list[float], float]:
    rng = Random(1)
    gpu = JumpGpu(
        {path: JumpEngine((Mode(speed, speed.accept_length),), rng) for path, speed in speeds.items()},
        shared=True,
    )
    jobs: list[Job] = []
    coming = list(given)
    while coming or any(engine.busy for engine in gpu.engines.values()):
        at = min(gpu.next_event_at(), coming[0][0] if coming else float("inf"))
        gpu.advance(at)
        while coming and coming[0][0] <= at:
            _, path, prompt, output = coming.pop(0)
            jobs.append(Job(len(jobs), at, prompt, output))
            gpu.engines[path].submit(jobs[-1])
    return [job.done for job in jobs], gpu.mixed_seconds


def plain(limit: int) -> dict[Path, EngineSpeed]:
    curve = Curve(((1, 0.010), (8, 0.016), (32, 0.040)))
    baseline = EngineSpeed(curve, mixed_fraction=0.52, max_running_requests=limit, prefill_base=0.012)
    other = EngineSpeed(
        Curve(((1, 0.013), (32, 0.05))), mixed_fraction=0.7, max_running_requests=limit, prefill_base=0.012
    )
    return {SPECULATIVE: other, BASELINE: baseline}


@pytest.mark.parametrize(("rate", "limit"), [(0.3, 64), (4.0, 64), (10.0, 6)])
@pytest.mark.parametrize("paths", [(BASELINE,), (SPECULATIVE, BASELINE)], ids=["one", "both"])
def test_without_luck_every_request_ends_at_the_same_moment(
    rate: float, limit: int, paths: tuple[Path, ...]
) -> None:
    given = arrivals(paths, rate, 150, seed=7)
    slow, fast = walked(plain(limit), given), jumped(plain(limit), given)
    assert fast[0] == pytest.approx(slow[0], rel=1e-9)
    assert fast[1] == pytest.approx(slow[1], rel=1e-9)


def test_with_luck_mean_latencies_agree() -> None:
    profile = load_profile("strong")
    speeds = {path: profile.speed(path) for path in Path}
    given = arrivals((SPECULATIVE,), 2.0, 600, seed=3)
    means = []
    for ends, _ in (walked(speeds, given), jumped(speeds, given)):
        means.append(sum(end - at for end, (at, *_) in zip(ends, given, strict=True)) / len(given))
    assert means[1] == pytest.approx(means[0], rel=0.03)


def test_an_engine_with_two_modes_takes_the_faster_one_at_every_load() -> None:
    profile = load_profile("strong")
    modes = (Mode(profile.speculative, 2.8), Mode(profile.baseline, 1.0))
    engine = JumpEngine(modes, Random(0))
    gpu = JumpGpu({SPECULATIVE: engine}, shared=False)
    engine.submit(Job(0, 0.0, 10, 50))
    gpu.advance(gpu.next_event_at())
    assert engine.mode is modes[0]
    for key in range(1, 40):
        engine.submit(Job(key, gpu.now, 10, 50))
    gpu.advance(gpu.next_event_at())
    assert engine.mode is modes[1]
    assert (engine.running, engine.waiting) == (40, 0)


def test_on_gpus_of_their_own_nothing_slows_the_other() -> None:
    speeds = plain(64)
    engines = {path: JumpEngine((Mode(speed, 1.0),), Random(0)) for path, speed in speeds.items()}
    gpu = JumpGpu(engines, shared=False)
    job = Job(0, 0.0, 0, 11)
    engines[BASELINE].submit(job)
    engines[SPECULATIVE].submit(Job(1, 0.0, 0, 500))
    while engines[BASELINE].busy:
        gpu.advance(gpu.next_event_at())
    assert job.done == pytest.approx(0.012 + 10 * 0.010)
    assert job.first == pytest.approx(0.012)
    assert engines[SPECULATIVE].busy
    assert gpu.mixed_seconds == 0.0


def test_a_load_that_changes_the_batch_in_mid_step_is_taken_in_at_its_end() -> None:
    engine = JumpEngine((Mode(plain(64)[BASELINE], 1.0),), Random(0))
    gpu = JumpGpu({BASELINE: engine}, shared=True)
    first, second = Job(0, 0.0, 0, 100), Job(1, 0.0, 0, 1)
    engine.submit(first)
    gpu.advance(gpu.next_event_at())
    gpu.advance(gpu.now + 0.0345)  # in the fourth step of 10 ms
    engine.submit(second)
    gpu.advance(gpu.next_event_at())
    assert gpu.now == pytest.approx(0.012 + 0.040)
    assert engine.running == 2
