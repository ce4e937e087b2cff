"""Runs, figures and goals."""

from __future__ import annotations

import json
import math
import re
from importlib.util import find_spec
from pathlib import Path as FilePath

import pytest

from router.calibration import dump_calibration
from router.cli.replay import ReplayOptions, replay
from router.core.calibration import Workload
from router.core.words import Path, Placement
from router.replay.compare import compare
from router.replay.contenders import (
    ADAPTIVE,
    BASELINE_ONLY,
    CALIBRATED,
    DERIVED,
    FIXED,
    ORACLE,
    SPECULATIVE_ONLY,
    contenders,
    derived,
)
from router.replay.deciding import ByPolicy
from router.replay.engine import Job
from router.replay.figures import Slo, estimate, summarise
from router.replay.goals import QUICK, check
from router.replay.load import read_load
from router.replay.plant import load_plant
from router.replay.run import Run, play
from router.sim.calibrated import calibration_of, profile_of
from router.sim.profiles import load_profile
from tests.support.sweeps import linear

NAMES = [SPECULATIVE_ONLY, BASELINE_ONLY, FIXED, DERIVED, CALIBRATED, ADAPTIVE, ORACLE]


def test_calibration_and_profile_say_the_same_of_each_other() -> None:
    profile, calibration = load_plant("strong", Placement.SHARED)
    again = profile_of(calibration, "again")
    for path in Path:
        for batch in (1, 3, 10, 100):
            wanted = profile.speed(path).step_seconds(batch)
            assert calibration.step_seconds(path, batch) == pytest.approx(wanted)
            assert again.speed(path).step_seconds(batch) == pytest.approx(wanted)
        assert calibration.mixed_fraction(path) == pytest.approx(profile.speed(path).mixed_fraction)
    assert calibration.crossover(2.8).n == pytest.approx(10, abs=1)
    assert calibration_of(profile, workload=Workload(7.0, 8.0)).workload.prompt_tokens == 7.0


def test_all_contenders_serve_the_same_requests_and_the_oracle_serves_them_best() -> None:
    profile, calibration = load_plant("strong", Placement.SHARED)
    load = read_load("wave:0.1-5/s:4m")
    rows = compare(contenders(profile, calibration), load, 1, Slo())
    assert [row.name for row in rows] == NAMES
    latency = {row.name: row.figures["latency_mean"].mean for row in rows}
    assert len({row.figures["requests"].mean for row in rows}) == 1
    assert min(latency, key=lambda name: latency[name]) == ORACLE
    assert latency[SPECULATIVE_ONLY] > 3 * latency[CALIBRATED]
    assert all(not math.isnan(job.done) for row in rows for job in row.first.jobs)
    assert rows[0].first.served[Path.BASELINE] == 0
    assert {switch.inputs is None for switch in rows[4].first.switches} == {False}


def test_a_run_is_the_same_again_under_its_seed_and_another_under_another() -> None:
    profile, calibration = load_plant("h200", Placement.SHARED)
    chosen = contenders(profile, calibration)[4]
    load = read_load("steady:20/s", duration=20.0)
    runs = [play(chosen, load, seed) for seed in (1, 1, 2)]
    ends = [[job.done for job in run.jobs] for run in runs]
    assert ends[0] == ends[1]
    assert ends[0] != ends[2]


def test_a_closed_loop_holds_its_users() -> None:
    profile, calibration = load_plant("h200", Placement.SHARED)
    run = play(contenders(profile, calibration)[1], read_load("steady:16", duration=20.0), 0)
    rate = summarise(run, Slo(), until=20.0).tokens_per_second
    assert rate == pytest.approx(3808, rel=0.1)


def test_a_workload_that_speculates_worse_moves_the_calibrated_policy_and_no_other() -> None:
    profile, calibration = load_plant("strong", Placement.SHARED)
    chosen = {each.name: each for each in contenders(profile, calibration)}
    load = read_load("steady:6", duration=240.0)
    change = {
        name: play(chosen[name], load, 0, lambda now: 2.8 if now < 60 else 1.5)
        for name in (FIXED, CALIBRATED)
    }
    assert change[FIXED].switches == []
    (up, *_) = change[CALIBRATED].switches
    assert up.target is Path.BASELINE
    assert 60.0 < up.at < 90.0
    means = {name: summarise(run, Slo(), since=100.0).latency_mean for name, run in change.items()}
    assert means[CALIBRATED] < 0.85 * means[FIXED]


def test_engines_on_gpus_of_their_own_overflow_and_beat_each_alone() -> None:
    profile, calibration = load_plant("strong", Placement.SEPARATE)
    chosen = {each.name: each for each in contenders(profile, calibration, Placement.SEPARATE)}
    for text in ("steady:2", "steady:16", "steady:60"):
        load = read_load(text, duration=120.0)
        runs = {
            name: play(chosen[name], load, 0) for name in (SPECULATIVE_ONLY, BASELINE_ONLY, FIXED, CALIBRATED)
        }
        means = {name: summarise(run, Slo(), since=30.0).latency_mean for name, run in runs.items()}
        best = min(means[name] for name in (SPECULATIVE_ONLY, BASELINE_ONLY, FIXED))
        assert means[CALIBRATED] <= 1.03 * best, text
        assert runs[CALIBRATED].switches == []
    assert 0 < runs[CALIBRATED].served[Path.SPECULATIVE] < len(runs[CALIBRATED].jobs)


def test_watermarks_from_a_calibration_without_a_crossover_are_a_fixed_path() -> None:
    assert derived(linear(12.0)).kind == "threshold"
    never = calibration_of(load_profile("seed"))
    assert derived(never).first_path is Path.BASELINE
    always = linear(12.0, limit=2)
    assert derived(always).first_path is Path.SPECULATIVE


def job(arrived: float, first: float, done: float, output: int) -> Job:
    made = Job(0, arrived, 10, output)
    made.first, made.done = first, done
    return made


def test_figures_are_of_the_requests_in_the_given_time() -> None:
    jobs = [job(0.0, 1.0, 3.0, 11), job(10.0, 13.0, 14.0, 1), job(20.0, 20.5, 21.5, 101)]
    run = Run(jobs, [], 5.0, 25.0, {Path.SPECULATIVE: 2, Path.BASELINE: 1})
    found = summarise(run, Slo(ttft=2.0, tpot=0.15), until=15.0)
    assert found.requests == 2
    assert found.latency_mean == 3.5
    assert found.tpot_p50 == 0.2
    assert found.slo == 0.0
    assert summarise(run, Slo(ttft=2.0, tpot=0.15), since=15.0).slo == 1.0
    assert found.tokens_per_second == pytest.approx(113 / 25)
    assert found.mixed_share == 0.2
    assert found.speculative_share == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="nothing arrived"):
        summarise(run, Slo(), since=100.0)


def test_intervals_are_student_s() -> None:
    assert estimate([3.0]).within == 0.0
    found = estimate([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.within == pytest.approx(4.30 / math.sqrt(3))


def options(load: str, **changes: object) -> ReplayOptions:
    fields: dict[str, object] = {
        "load": load,
        "profile": "h200",
        "rate": 1.0,
        "users": None,
        "seconds": 5.0,
        "seeds": 2,
        "placement": Placement.SHARED,
        "accept_length": None,
        "slo": Slo(),
        "as_json": True,
        "plot": None,
    }
    return ReplayOptions(**{**fields, **changes})  # type: ignore[arg-type]


def test_the_command_prints_every_contender(capsys: pytest.CaptureFixture[str], tmp_path: FilePath) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(dump_calibration(linear(6.0)))
    assert replay(options("steady:4", profile=str(file))) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in printed["rows"]] == NAMES
    assert replay(options("steady:4/s", as_json=False, users=3.0)) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in NAMES)


def test_other_processes_and_other_times_change_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Only `speedup` tells how a comparison was made: virtual seconds of all runs per second."""
    printed = []
    for jobs in (1, 2):
        assert replay(options("wave:1-20/s:5s", jobs=jobs)) == 0
        printed.append(json.loads(capsys.readouterr().out))
    assert all(each.pop("speedup") > 1 for each in printed)
    assert printed[0] == printed[1]


def test_the_table_says_how_fast_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(options("steady:4", as_json=False)) == 0
    assert re.search(r"^[\d,]+ times as fast as real time", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("name", [BASELINE_ONLY, ADAPTIVE, ORACLE])
def test_where_nothing_can_be_decided_the_pair_would_decide_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile, calibration = load_plant("strong", Placement.SHARED)
    chosen = next(each for each in contenders(profile, calibration) if each.name == name)
    load = read_load("wave:1-30:20s")
    short = play(chosen, load, 0)
    monkeypatch.setattr("router.replay.run.decider", ByPolicy)
    asked = play(chosen, load, 0)
    assert [job.done for job in short.jobs] == [job.done for job in asked.jobs]
    assert short.switches == asked.switches == []


@pytest.mark.parametrize("changes", [{"load": "none.csv"}, {"profile": "none.yaml"}], ids=["load", "profile"])
def test_the_command_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], changes: dict[str, object]
) -> None:
    assert replay(options(**{"load": "steady:4", **changes})) == 2  # type: ignore[arg-type]
    assert "allowed" in capsys.readouterr().err


def test_the_promises_are_kept() -> None:
    """The small version of `make replay-goals`."""
    missed = [found for found in check(QUICK, 2, None) if not found.met]
    assert missed == []


def test_a_picture_is_drawn_or_the_extra_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: FilePath
) -> None:
    file = tmp_path / "replay.png"
    drawn = find_spec("matplotlib") is not None
    assert replay(options("wave:1-40:5s", seeds=1, plot=file)) == (0 if drawn else 2)
    assert file.exists() is drawn
    assert drawn or "spec-router[plots]" in capsys.readouterr().err


def test_one_engine_is_nothing_to_compare(capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(options("steady:1", placement=Placement.SINGLE)) == 2
    assert "allowed: shared, separate" in capsys.readouterr().err
