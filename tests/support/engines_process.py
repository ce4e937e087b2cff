"""Two simulated engines in a process of their own: `python -m tests.support.engines_process STEP`.

Each gives every request one token per step: of STEP seconds at whatever concurrency, but of 20 ms to a
request that is alone. Prints the two ports.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import uvloop

from router.sim.params import SimParams
from router.sim.server import SimulatedPair, run_sim
from router.sim.speed import Curve, EngineSpeed, Profile


def profile_of(step: float) -> Profile:
    """Engines that take any number of requests at the same pace."""
    speed = EngineSpeed(
        steps=Curve(((1, 0.02), (2, step), (3, step))),
        prefill_base=0.0,
        prefill_per_token=0.0,
        max_running_requests=2048,
    )
    # A draft of which nothing is ever accepted: one token a step, from a speculative engine by its own word.
    return Profile("even", replace(speed, draft_steps=3), speed)


def tell(pair: SimulatedPair) -> None:
    """Say where the engines listen."""
    print(pair.speculative.port, pair.baseline.port, flush=True)


if __name__ == "__main__":
    params = SimParams(profile=profile_of(float(sys.argv[1])), shared=False, kv_tokens=10_000_000)
    uvloop.run(run_sim(params, speculative_port=0, baseline_port=0, on_ready=tell))
