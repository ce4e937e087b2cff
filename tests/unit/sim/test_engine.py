from __future__ import annotations

from random import Random

import pytest

from router.core.words import Path
from router.sim.engine import QueueFull, SimEngine
from router.sim.gpu import SimGpu
from router.sim.profiles import load_profile
from router.sim.request import Delivery, Finish, Phase, SimRequest
from router.sim.speed import Curve, EngineSpeed, Profile
from tests.unit.sim.closed_loop import make_gpu, tokens_per_second

SPEC, BASE = Path.SPECULATIVE, Path.BASELINE
FLAT = EngineSpeed(Curve(((1, 1.0),)), prefill_base=0.0, prefill_per_token=0.1, max_running_requests=2)


def flat_profile(**fraction: float) -> Profile:
    spec = EngineSpeed(Curve(((1, 1.0),)), prefill_base=0.0, mixed_fraction=fraction.get("spec", 1.0))
    base = EngineSpeed(Curve(((1, 1.0),)), prefill_base=0.0, mixed_fraction=fraction.get("base", 1.0))
    return Profile("flat", spec, base)


def lone(speed: EngineSpeed = FLAT, **limits: int) -> SimGpu:
    return SimGpu({BASE: SimEngine(speed, Random(0), **limits)})


def drain(gpu: SimGpu) -> list[Delivery]:
    found: list[Delivery] = []
    while (due := gpu.next_event_at()) is not None:
        found += gpu.advance(due)
    return found


@pytest.mark.parametrize(
    ("name", "seconds", "sizes"),
    [("seed", 500, (1, 30, 70, 250)), ("h200", 8, (1, 8, 64)), ("strong", 40, (1, 10, 30))],
)
@pytest.mark.parametrize("path", list(Path))
def test_a_closed_loop_gives_the_profiles_throughput(
    name: str, seconds: float, sizes: tuple[int, ...], path: Path
) -> None:
    profile = load_profile(name)
    for clients in sizes:
        rates = tokens_per_second(make_gpu(profile), {path: clients}, seconds=seconds)
        assert rates[path] == pytest.approx(profile.speed(path).tokens_per_second(clients), rel=0.03), clients


def test_both_loaded_run_at_their_mixed_fractions() -> None:
    profile = load_profile("strong")
    clients = {SPEC: 4, BASE: 30}
    gpu = make_gpu(profile)
    both = tokens_per_second(gpu, clients, seconds=60)
    alone = {
        path: tokens_per_second(make_gpu(profile), {path: n}, seconds=60)[path] for path, n in clients.items()
    }
    assert both[SPEC] / alone[SPEC] == pytest.approx(0.70, rel=0.03)
    assert both[BASE] / alone[BASE] == pytest.approx(0.52, rel=0.03)
    assert gpu.mixed_seconds == pytest.approx(gpu.now, rel=0.01)


def test_a_step_under_way_slows_down_when_the_other_engine_gets_work_and_speeds_up_again() -> None:
    gpu = make_gpu(flat_profile(base=0.5, spec=0.25))
    gpu.submit(BASE, SimRequest("b", 0, 2))
    gpu.advance(0.5)
    other = SimRequest("s", 0, 5)
    gpu.submit(SPEC, other)
    assert gpu.next_event_at() == pytest.approx(1.5)
    gpu.advance(1.0)
    gpu.abort(SPEC, other)
    assert gpu.next_event_at() == pytest.approx(1.25)
    assert [round(d.at, 6) for d in drain(gpu)] == [1.25, 2.25]
    assert gpu.mixed_seconds == pytest.approx(0.5)


def test_requests_wait_in_order_above_the_running_limit() -> None:
    gpu = lone()
    requests = [SimRequest(str(i), 0, 2) for i in range(5)]
    for request in requests:
        gpu.submit(BASE, request)
    engine = gpu.engines[BASE]
    assert (engine.running, engine.waiting) == (1, 4)
    gpu.advance(1.0)
    assert (engine.running, engine.waiting) == (2, 3)
    drain(gpu)
    assert [r.admitted_at for r in requests] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert all(r.phase is Phase.DONE and r.generated == 2 for r in requests)


def test_a_full_queue_refuses() -> None:
    gpu = lone(max_queued_requests=1)
    gpu.submit(BASE, SimRequest("runs", 0, 9))
    gpu.submit(BASE, SimRequest("waits", 0, 9))
    refused = SimRequest("refused", 0, 9)
    with pytest.raises(QueueFull):
        gpu.submit(BASE, refused)
    assert refused.phase is Phase.NEW
    drain(gpu)
    gpu.submit(BASE, refused)


def test_an_abort_frees_the_slot() -> None:
    gpu = lone()
    first, second, third = (SimRequest(name, 3, 100) for name in "abc")
    for request in (first, second, third):
        gpu.submit(BASE, request)
    gpu.advance(3.0)
    engine = gpu.engines[BASE]
    assert (engine.running, engine.waiting) == (2, 1)
    delivery = gpu.abort(BASE, first)
    assert delivery == Delivery(first, 0, Finish.ABORT, 3.0)
    assert engine.running == 1
    gpu.advance(5.0)
    assert (engine.running, engine.waiting) == (2, 0)
    assert third.phase is Phase.RUNNING
    assert gpu.abort(BASE, first) is None


def test_aborting_all_makes_it_idle_and_time_goes_on() -> None:
    gpu = lone()
    requests = [SimRequest(str(i), 3, 100) for i in range(3)]
    for request in requests:
        gpu.submit(BASE, request)
    gpu.advance(1.5)
    for request in requests:
        gpu.abort(BASE, request)
    assert gpu.next_event_at() is None
    assert gpu.advance(10.0) == []
    gpu.submit(BASE, SimRequest("new", 0, 1))
    assert gpu.next_event_at() == pytest.approx(11.0)


def test_prefill_costs_its_uncached_tokens() -> None:
    gpu = lone()
    blocks = tuple(range(100, 102))
    first, again = SimRequest("a", 40, 1, blocks=blocks), SimRequest("b", 40, 1, blocks=blocks)
    gpu.submit(BASE, first)
    drain(gpu)
    assert first.first_token_at == pytest.approx(1.0 + 40 * 0.1)
    start = gpu.now
    gpu.submit(BASE, again)
    drain(gpu)
    assert again.cached_tokens == 32
    assert again.first_token_at - start == pytest.approx(1.0 + 8 * 0.1)


def test_the_prefix_cache_is_each_engines_own() -> None:
    gpu = make_gpu(flat_profile())
    for path, expected in ((BASE, 0), (SPEC, 0), (BASE, 32)):
        request = SimRequest(path.value, 40, 1, blocks=(1, 2))
        gpu.submit(path, request)
        drain(gpu)
        assert request.cached_tokens == expected


def test_flushing_is_refused_while_there_is_work() -> None:
    gpu = lone()
    gpu.submit(BASE, SimRequest("a", 40, 1, blocks=(1, 2)))
    engine = gpu.engines[BASE]
    assert not engine.flush_cache()
    drain(gpu)
    assert engine.flush_cache()
    assert len(engine.cache) == 0


def test_nothing_to_generate_still_ends() -> None:
    gpu = lone()
    gpu.submit(BASE, SimRequest("a", 5, 0))
    (delivery,) = drain(gpu)
    assert (delivery.tokens, delivery.finish) == (0, Finish.LENGTH)


@pytest.mark.parametrize("length", [1.0, 1.3, 2.1, 4.0])
def test_speculative_steps_gain_the_accept_length_on_average(length: float) -> None:
    profile = load_profile("strong")
    gpu = make_gpu(profile)
    engine = gpu.engines[SPEC]
    engine.accept_length = length
    for i in range(8):
        gpu.submit(SPEC, SimRequest(str(i), 4, 2000))
    sizes = {delivery.tokens for delivery in drain(gpu)}
    assert engine.counters.mean_accept_length == pytest.approx(length, rel=0.02)
    assert max(sizes) <= 4
    assert len(sizes) > 1 or length in (1.0, 4.0)


def test_the_accept_length_can_change_while_running() -> None:
    gpu = make_gpu(load_profile("strong"))
    before = tokens_per_second(gpu, {SPEC: 4}, seconds=60)[SPEC]
    gpu.engines[SPEC].accept_length = 1.4
    slow = make_gpu(load_profile("strong"))
    slow.engines[SPEC].accept_length = 1.4
    assert tokens_per_second(slow, {SPEC: 4}, seconds=60)[SPEC] == pytest.approx(before / 2, rel=0.05)


@pytest.mark.parametrize("length", [0.9, 4.1])
def test_an_impossible_accept_length_is_refused(length: float) -> None:
    with pytest.raises(ValueError, match="from 1 to 4"):
        make_gpu(load_profile("strong")).engines[SPEC].accept_length = length


def test_the_same_seed_gives_the_same_run() -> None:
    def trace(seed: int) -> list[tuple[str, int, float]]:
        gpu = make_gpu(load_profile("strong"), seed=seed)
        for i in range(12):
            gpu.submit(list(Path)[i % 2], SimRequest(str(i), 20, 60))
        return [(d.request.rid, d.tokens, d.at) for d in drain(gpu)]

    assert trace(3) == trace(3)
    assert trace(3) != trace(4)


def test_a_request_is_submitted_once() -> None:
    gpu = lone()
    request = SimRequest("a", 0, 1)
    gpu.submit(BASE, request)
    with pytest.raises(ValueError, match="before"):
        gpu.submit(BASE, request)


def test_negative_token_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        SimRequest("a", -1, 1)


def test_virtual_time_is_much_faster_than_real_time() -> None:
    """An hour of thirty clients on the slow profile, well within a test's time limit."""
    gpu = make_gpu(load_profile("seed"))
    tokens_per_second(gpu, {SPEC: 30}, seconds=3600)
    assert gpu.now >= 3600
