"""Loads: what is read, what is made up, what is refused."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from router.replay.load import LoadError, read_load

TRACE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""


def test_a_trace_is_read_from_its_first_arrival_on(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(TRACE)
    load = read_load(str(file))
    assert not load.closed
    times, prompts, outputs = zip(*load.arrivals(Random(0)), strict=True)
    assert times == pytest.approx((0.0, 4.314579, 4.541877), abs=1e-6)
    assert (prompts, outputs) == ((374, 396, 879), (44, 109, 55))
    assert load.duration == pytest.approx(4.541877, abs=1e-6)


def test_a_scaled_rate_keeps_the_shape(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("0,10,5\n10,20,6\n30,30,7\n")
    assert [at for at, *_ in read_load(str(file), scale=2.0).arrivals(Random(0))] == [0.0, 5.0, 15.0]
    assert len(read_load(str(file), duration=12.0).arrivals(Random(0))) == 2


def test_users_who_wait_send_the_requests_of_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("0,10,5\n10,20,6\n")
    load = read_load(str(file)).with_users(3)
    assert load.closed
    assert load.users is not None
    assert load.users(1.0) == 3
    assert {load.shape(Random(seed)) for seed in range(20)} == {(10, 5), (20, 6)}


@pytest.mark.parametrize(
    ("text", "levels", "duration"),
    [
        ("steady:8", {0.0: 8, 500.0: 8}, 600.0),
        ("ramp:1-61:10m", {0.0: 1, 300.0: 31, 600.0: 61}, 600.0),
        ("wave:1-61:20m", {0.0: 1, 600.0: 61, 1200.0: 1}, 1200.0),
        ("day:1-61:20m", {0.0: 1, 600.0: 61, 300.0: 1 + 60 / 8}, 1200.0),
    ],
)
def test_shapes_of_closed_loads(text: str, levels: dict[float, float], duration: float) -> None:
    load = read_load(text)
    assert load.duration == duration
    assert load.users is not None
    for at, level in levels.items():
        assert load.users(at) == pytest.approx(level)
    prompt, output = load.shape(Random(1))
    assert prompt == 200
    assert output > 0


def test_an_open_load_comes_at_its_rate() -> None:
    load = read_load("steady:5/s", duration=2000.0)
    times = [at for at, *_ in load.arrivals(Random(2))]
    assert len(times) == pytest.approx(10_000, rel=0.05)
    assert times == sorted(times)
    wave = read_load("wave:0-4/s:10m").arrivals(Random(2))
    quiet = sum(not 150 <= at < 450 for at, *_ in wave)
    assert 0.05 < quiet / len(wave) < 0.25
    assert read_load("steady:0/s").arrivals(Random(0)) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("none.csv", "cannot be replayed"),
        ("wave:5-1:10m", "is not a load"),
        ("steady:1-2", "is not a load"),
        ("wave:1-2:0s", "is not a load"),
    ],
)
def test_what_is_no_load_is_refused(text: str, said: str) -> None:
    with pytest.raises(LoadError, match=said):
        read_load(text)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("0,1,2\n1,x,3\n", "line 2"),
        ("0,1,2\nnan,1,3\n", "line 2"),
        ("0,1,2\n5,1\n", "line 2"),
        ("", "holds no request"),
        ("time,prompt,output\n", "holds no request"),
    ],
    ids=["text", "nan", "short", "empty", "header"],
)
def test_what_is_no_trace_is_refused_with_the_line(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(content)
    with pytest.raises(LoadError, match=said):
        read_load(str(file))
