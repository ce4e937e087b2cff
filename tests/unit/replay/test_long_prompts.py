"""Traffic unlike a sweep's: long prompts, short answers, bursts. The watermarks 8/3 must not be better."""

from __future__ import annotations

import os
from pathlib import Path as FilePath
from random import Random

import pytest

from router.core.words import Placement
from router.replay.contenders import BASELINE_ONLY, CALIBRATED, FIXED, SPECULATIVE_ONLY, contenders
from router.replay.figures import Slo, summarise
from router.replay.load import Load, read_load
from router.replay.plant import load_plant
from router.replay.run import Run, play

NAMES = (SPECULATIVE_ONLY, BASELINE_ONLY, FIXED, CALIBRATED)


def completions(seconds: float, quiet: float, burst: float) -> Load:
    """2,000 prompt tokens for 30 of an answer; every 100 s there are 20 s at the higher rate."""
    rng, now, found = Random(5), 0.0, []
    while now < seconds:
        now += rng.expovariate(burst if now % 100 > 80 else quiet)
        found.append((now, rng.randrange(1000, 3000), rng.randrange(5, 55)))
    return Load("completions", seconds, recorded=found)


def served(profile: str, load: Load) -> dict[str, Run]:
    engines, calibration = load_plant(profile, Placement.SHARED)
    found = contenders(engines, calibration)
    return {each.name: play(each, load, 0) for each in found if each.name in NAMES}


def latency(run: Run) -> float:
    return summarise(run, Slo()).latency_mean


@pytest.mark.parametrize(
    ("profile", "load"),
    [
        ("h200", completions(200.0, 1.5, 22.0)),
        ("strong", completions(300.0, 0.8, 9.0)),
    ],
    ids=["h200", "strong"],
)
def test_it_is_no_worse_than_the_watermarks(profile: str, load: Load) -> None:
    """A burst that everybody waits in is worth a switch, however quiet it is most of the time."""
    found = {name: latency(run) for name, run in served(profile, load).items()}
    assert found[SPECULATIVE_ONLY] > 1.1 * found[BASELINE_ONLY], "speculation would do for this load"
    assert found[CALIBRATED] <= 1.05 * found[FIXED]


@pytest.mark.skipif("SPEC_ROUTER_SHARED" not in os.environ, reason="no recorded traffic")
@pytest.mark.parametrize(("name", "rate"), [("code", 1.0), ("conv", 1.0), ("conv", 4.0)])
def test_nor_is_it_on_recorded_traffic(name: str, rate: float) -> None:
    """The Azure LLM inference trace of 2023: ten minutes of completions, and of chats at two rates."""
    file = FilePath(os.environ["SPEC_ROUTER_SHARED"]) / f"traces/azure-llm-2023-{name}.csv"
    found = {each: latency(run) for each, run in served("h200", read_load(str(file), rate, 600.0)).items()}
    assert found[CALIBRATED] <= 1.05 * found[FIXED]
