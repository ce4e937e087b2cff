"""Whatever is submitted, aborted and awaited in whatever order: the counts stay right and everything ends."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from router.core.words import Path
from router.sim.engine import QueueFull
from router.sim.gpu import SimGpu
from router.sim.profiles import load_profile
from router.sim.request import Delivery, Phase, SimRequest
from tests.unit.sim.closed_loop import make_gpu

PROFILE = load_profile("strong").with_max_running_requests(3)

submissions = st.tuples(
    st.just("submit"), st.sampled_from(list(Path)), st.integers(0, 50), st.integers(0, 20)
)
aborts = st.tuples(st.just("abort"), st.integers(0, 40))
waits = st.tuples(st.just("wait"), st.floats(0, 0.5))


def check(gpu: SimGpu, live: dict[SimRequest, Path]) -> None:
    for path, engine in gpu.engines.items():
        mine = [request for request, owner in live.items() if owner is path]
        assert 0 <= engine.running <= 3
        assert engine.running + engine.waiting == len(mine)
        held = [request for request in mine if request.phase is Phase.RUNNING]
        assert engine.used_tokens == sum(request.prompt_tokens + request.generated for request in held)
        assert engine.stepping == engine.busy
        assert engine.work_left >= 0


@settings(max_examples=80, deadline=None)
@given(st.lists(st.one_of(submissions, aborts, waits), max_size=60), st.one_of(st.none(), st.integers(0, 3)))
def test_counts_hold_and_everything_ends(actions: list[tuple[object, ...]], bound: int | None) -> None:
    gpu = make_gpu(PROFILE, max_queued_requests=bound)
    live: dict[SimRequest, Path] = {}
    received: dict[SimRequest, int] = {}
    refused = 0

    def take(deliveries: list[Delivery]) -> None:
        last = 0.0
        for delivery in deliveries:
            assert delivery.at >= last
            last = delivery.at
            received[delivery.request] += delivery.tokens
            if delivery.finish is not None:
                del live[delivery.request]

    for number, action in enumerate(actions):
        if action[0] == "submit":
            _, path, prompt, output = action
            request = SimRequest(str(number), int(str(prompt)), int(str(output)))
            received[request] = 0
            try:
                gpu.submit(Path(str(path)), request)
                live[request] = Path(str(path))
            except QueueFull:
                refused += 1
        elif action[0] == "abort" and live:
            request = list(live)[int(str(action[1])) % len(live)]
            delivery = gpu.abort(live[request], request)
            assert delivery is not None
            take([delivery])
        elif action[0] == "wait":
            take(gpu.advance(gpu.now + float(str(action[1]))))
        check(gpu, live)
    while (due := gpu.next_event_at()) is not None:
        take(gpu.advance(due))
        check(gpu, live)
    assert not live
    for request, tokens in received.items():
        assert tokens == request.generated <= request.output_tokens
    total = sum(engine.counters.requests for engine in gpu.engines.values())
    assert total == len(received) - refused
