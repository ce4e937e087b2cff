"""The published figures lag behind as SGLang's do."""

from __future__ import annotations

import pytest

from router.core.words import Path
from router.sim.gauges import LOADS_INTERVAL_STEPS, LOG_INTERVAL_STEPS
from router.sim.gpu import SimGpu
from router.sim.histogram import Histogram, latency_buckets
from router.sim.profiles import load_profile
from router.sim.request import SimRequest
from tests.unit.sim.closed_loop import make_gpu


def steps(gpu: SimGpu, count: int) -> None:
    for _ in range(count):
        due = gpu.next_event_at()
        assert due is not None
        gpu.advance(due)


def test_gauges_move_with_log_lines_and_loads_sooner() -> None:
    gpu = make_gpu(load_profile("strong"))
    engine = gpu.engines[Path.BASELINE]
    gpu.submit(Path.BASELINE, SimRequest("a", 10, 1000))
    assert (engine.metrics_snapshot.running, engine.loads_snapshot.running) == (0, 1)
    steps(gpu, 1 + LOADS_INTERVAL_STEPS)
    assert engine.loads_snapshot.at == gpu.now
    assert engine.metrics_snapshot.running == 0
    steps(gpu, LOG_INTERVAL_STEPS - LOADS_INTERVAL_STEPS)
    assert engine.metrics_snapshot.running == 1
    assert engine.metrics_snapshot.tokens_per_second == pytest.approx(80, rel=0.05)
    assert engine.metrics_snapshot.used_tokens == 10 + 1 + LOG_INTERVAL_STEPS


def test_the_recent_accept_length_follows_a_change_and_the_mean_does_not() -> None:
    gpu = make_gpu(load_profile("strong"))
    engine = gpu.engines[Path.SPECULATIVE]
    for i in range(16):
        gpu.submit(Path.SPECULATIVE, SimRequest(str(i), 10, 100_000))
    steps(gpu, 201)
    assert engine.metrics_snapshot.accept_length == pytest.approx(2.8, abs=0.15)
    engine.accept_length = 1.5
    steps(gpu, 2 * LOG_INTERVAL_STEPS)
    assert engine.metrics_snapshot.accept_length == pytest.approx(1.5, abs=0.1)
    mean = engine.counters.mean_accept_length
    assert mean is not None
    assert 2.0 < mean < 2.7


def test_a_baseline_says_no_accept_length() -> None:
    gpu = make_gpu(load_profile("strong"))
    engine = gpu.engines[Path.BASELINE]
    gpu.submit(Path.BASELINE, SimRequest("a", 10, 100))
    steps(gpu, 90)
    assert engine.metrics_snapshot.accept_length == 0.0
    assert engine.counters.mean_accept_length is None


def test_loads_say_nothing_runs_once_idle() -> None:
    gpu = make_gpu(load_profile("strong"))
    engine = gpu.engines[Path.BASELINE]
    gpu.submit(Path.BASELINE, SimRequest("a", 10, 60))
    while gpu.next_event_at() is not None:
        steps(gpu, 1)
    assert (engine.loads_snapshot.running, engine.loads_snapshot.tokens_per_second) == (0, 0.0)
    assert engine.metrics_snapshot.running == 0
    assert engine.counters.generation_tokens == 60


def test_histogram_counts_up_to_each_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(value)
    assert list(histogram.cumulative()) == [("1.0", 2), ("2.0", 3), ("+Inf", 4)]
    assert (histogram.sum, histogram.count) == (12.0, 4)


def test_latency_buckets_are_a_1_2_5_series() -> None:
    assert latency_buckets(0.01, 0.5) == (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
