"""Engine readings and the rates made from them."""

from __future__ import annotations

import math

import pytest

from router.core.load import EngineLoad, Readings, ThroughputMeter, finite
from tests.support import FakeClock


@pytest.mark.parametrize(
    ("running", "waiting", "in_flight"),
    [(3, 2, 5), (0, 0, 0), (None, 2, None), (3, None, None), (None, None, None)],
)
def test_an_engine_holds_what_runs_and_what_waits_or_it_is_not_known(
    running: int | None, waiting: int | None, in_flight: int | None
) -> None:
    assert EngineLoad(0.0, running=running, waiting=waiting).in_flight() == in_flight


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0, 0.0),
        (3, 3.0),
        (-2.5, -2.5),
        (math.nan, None),
        (math.inf, None),
        (-math.inf, None),
        pytest.param(10**400, None, id="beyond the floats"),
        (True, None),
        (None, None),
        ("3", None),
        ([1], None),
    ],
)
def test_only_finite_numbers_count(value: object, number: float | None) -> None:
    found = finite(value)
    assert found == number
    assert found is None or type(found) is float


def meter_of(*readings: EngineLoad) -> ThroughputMeter:
    meter = ThroughputMeter(window=5.0)
    for reading in readings:
        meter.record(reading)
    return meter


def counted(at: float, tokens: float) -> EngineLoad:
    return EngineLoad(at, generation_tokens=tokens)


RATES = [
    ("nothing read yet", [], 0.0, None),
    ("one reading makes no rate", [counted(0.0, 10.0)], 0.0, None),
    ("the counter's rate", [counted(0.0, 10.0), counted(2.0, 110.0)], 2.0, 50.0),
    ("an idle engine makes none", [counted(0.0, 10.0), counted(2.0, 10.0)], 2.0, 0.0),
    ("two readings of one moment make no rate", [counted(1.0, 10.0), counted(1.0, 20.0)], 1.0, None),
    (
        "the counter outranks what the engine says",
        [
            EngineLoad(0.0, generation_tokens=0.0, gen_throughput=7.0),
            EngineLoad(1.0, generation_tokens=9.0, gen_throughput=7.0),
        ],
        1.0,
        9.0,
    ),
    (
        "readings before the window are forgotten",
        [counted(0.0, 0.0), counted(1.0, 1000.0), counted(6.0, 1500.0)],
        6.0,
        100.0,
    ),
    (
        "the window's edge is kept whole",
        [counted(0.0, 0.0), counted(1.5, 1000.0), counted(6.0, 1500.0)],
        6.0,
        250.0,
    ),
    ("a restarted engine starts anew", [counted(0.0, 900.0), counted(1.0, 5.0)], 1.0, None),
    ("and has a rate again", [counted(0.0, 900.0), counted(1.0, 5.0), counted(2.0, 8.0)], 2.0, 3.0),
    ("still fresh", [counted(0.0, 0.0), counted(2.0, 8.0)], 12.0, 4.0),
    ("too old", [counted(0.0, 0.0), counted(2.0, 8.0)], 12.125, None),
    (
        "no counter: what the engine says",
        [EngineLoad(0.0, gen_throughput=7.0, running=1, waiting=0)],
        0.0,
        7.0,
    ),
    ("no counter, all waiting", [EngineLoad(0.0, gen_throughput=7.0, running=0, waiting=1)], 0.0, 7.0),
    (
        "no counter, idle: the last value is stale",
        [EngineLoad(0.0, gen_throughput=7.0, running=0, waiting=0)],
        0.0,
        0.0,
    ),
    ("no counter, nothing said", [EngineLoad(0.0, running=1, waiting=0)], 0.0, None),
]


@pytest.mark.parametrize(
    ("readings", "now", "rate"), [row[1:] for row in RATES], ids=[row[0] for row in RATES]
)
def test_tokens_per_second(readings: list[EngineLoad], now: float, rate: float | None) -> None:
    assert meter_of(*readings).per_second(now) == rate


def test_readings_are_known_until_they_are_too_old() -> None:
    clock = FakeClock(0.0)
    readings = Readings(clock, max_age=3.0)
    assert (readings.latest(), readings.accept_length(), readings.tokens_per_second()) == (None, None, None)
    first, second = (EngineLoad(at, generation_tokens=at * 40, accept_length=2.5) for at in (0.0, 1.0))
    readings.record(first)
    clock.advance(1.0)
    readings.record(second)
    clock.advance(3.0)
    assert (readings.latest(), readings.accept_length(), readings.tokens_per_second()) == (second, 2.5, 40.0)
    clock.advance(0.125)
    assert (readings.latest(), readings.accept_length(), readings.tokens_per_second()) == (None, None, None)


def test_an_engine_that_is_gone_leaves_no_numbers_behind() -> None:
    clock = FakeClock(0.0)
    readings = Readings(clock)
    readings.record(counted(0.0, 0.0))
    readings.record(counted(0.0, 10.0))
    readings.forget()
    assert readings.latest() is None
    clock.advance(1.0)
    readings.record(counted(1.0, 90.0))
    assert readings.latest() == counted(1.0, 90.0)
    assert readings.tokens_per_second() is None, "a rate needs two readings of the same engine"


def prefilled(at: float, tokens: float, prompts: float | None) -> EngineLoad:
    return EngineLoad(at, generation_tokens=tokens, prefilled_tokens=prompts)


@pytest.mark.parametrize(
    ("readings", "rate"),
    [
        ([], None),
        ([prefilled(0.0, 10.0, 500.0)], None),
        ([prefilled(0.0, 10.0, 500.0), prefilled(2.0, 20.0, 4500.0)], 2000.0),
        ([prefilled(0.0, 10.0, 500.0), prefilled(2.0, 20.0, None)], None),
        ([prefilled(0.0, 10.0, None), prefilled(2.0, 20.0, 4500.0)], None),
        ([prefilled(0.0, 10.0, 500.0), prefilled(2.0, 20.0, 100.0)], 0.0),
        ([prefilled(2.0, 10.0, 500.0), prefilled(2.0, 10.0, 600.0)], None),
    ],
    ids=["none", "one", "two", "not told", "not told before", "falls", "at once"],
)
def test_prompt_tokens_have_a_rate_as_well(readings: list[EngineLoad], rate: float | None) -> None:
    assert meter_of(*readings).prefilled_per_second() == rate
    clock = FakeClock(2.0)
    known = Readings(clock)
    for reading in readings:
        known.record(reading)
    assert known.prefilled_per_second() == rate
    clock.now = 100.0
    assert known.prefilled_per_second() is None
