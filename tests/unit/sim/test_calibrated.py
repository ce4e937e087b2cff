"""Simulated engines made of a calibration file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath

import pytest
import yaml
from typer.testing import CliRunner

from router.calibration import dump_calibration
from router.cli.main import app
from router.core.calibration import Calibration, Cell, Key, MixedCell, PathCalibration
from router.core.words import Path, Placement
from router.sim.calibrated import calibration_of
from router.sim.profiles import ProfileError, load_engines, load_profile
from router.sim.speed import Profile
from tests.support.sweeps import TOGETHER, UNSEEN_BASELINE, UNSEEN_EAGLE, linear, sweep
from tests.unit.sim.closed_loop import make_gpu, tokens_per_second

SPECULATIVE, BASELINE = Path
LOADS = (1, 3, 10, 30)
# Long answers, so that what a request costs beside its steps (prefill, a last step cut short) is below 0.5 %.
TOKENS = 1200


def saved(folder: FilePath, calibration: Calibration) -> FilePath:
    file = folder / "measured.yaml"
    file.write_text(dump_calibration(calibration, {"note": "a test"}))
    return file


def throughput(profile: Profile, path: Path, clients: int) -> float:
    return served(profile, {path: clients})[path]


def served(profile: Profile, clients: Mapping[Path, int]) -> dict[Path, float]:
    return tokens_per_second(make_gpu(profile), clients, output_tokens=TOKENS, seconds=150.0)


def swept(profile: Profile) -> Calibration:
    """What a sweep over these simulated engines finds: tokens counted, in virtual time."""
    gain = profile.speculative.accept_length
    together = served(profile, {SPECULATIVE: 8, BASELINE: 8})
    return Calibration(
        Key(placement=Placement.SHARED),
        PathCalibration(tuple(Cell(n, (throughput(profile, SPECULATIVE, n),), (gain,)) for n in LOADS)),
        PathCalibration(tuple(Cell(n, (throughput(profile, BASELINE, n),)) for n in LOADS)),
        (MixedCell(8, 8, together[BASELINE], together[SPECULATIVE]),),
    )


@pytest.mark.parametrize("calibrate", [swept, calibration_of], ids=["as measured", "as computed"])
def test_profile_to_calibration_to_profile_keeps_throughput_within_1_percent(
    tmp_path: FilePath, calibrate: object
) -> None:
    """A rehearsal on simulated engines is worth nothing if they are not as fast as the measured ones."""
    profile = load_profile("strong")
    again = load_profile(saved(tmp_path, calibrate(profile)))  # type: ignore[operator]
    for path in Path:
        for clients in LOADS:
            wanted = throughput(profile, path, clients)
            assert throughput(again, path, clients) == pytest.approx(wanted, rel=0.01), (path, clients)
    both = {SPECULATIVE: 10, BASELINE: 10}
    assert served(again, both) == pytest.approx(served(profile, both), rel=0.02)


def test_a_measured_sweep_gives_its_own_cells_back(tmp_path: FilePath) -> None:
    """The curve is fitted, so single cells may be missed by their noise; these are smooth to 6 %."""
    profile, calibration = load_engines(saved(tmp_path, sweep(UNSEEN_BASELINE, UNSEEN_EAGLE, mixed=TOGETHER)))
    assert calibration is not None
    assert profile.name == "measured"
    for n, rate in UNSEEN_BASELINE.items():
        assert profile.baseline.tokens_per_second(n) == pytest.approx(rate, rel=0.06), n
    assert profile.baseline.mixed_fraction == calibration.mixed_fraction(BASELINE)
    assert profile.speculative.mixed_fraction == calibration.mixed_fraction(SPECULATIVE)
    assert 0.4 < profile.baseline.mixed_fraction < profile.speculative.mixed_fraction < 0.9


def test_limits_and_prefill_are_the_measured_ones(tmp_path: FilePath) -> None:
    cells = (Cell(1, (100.0,), (2.0,)),)
    calibration = Calibration(
        Key(placement=Placement.SHARED),
        PathCalibration(cells, prefill_seconds_per_token=3e-5, max_running_requests=48),
        PathCalibration((Cell(1, (80.0,)),)),
    )
    profile = load_profile(saved(tmp_path, calibration))
    assert profile.speculative.prefill_per_token == 3e-5
    assert profile.speculative.max_running_requests == 48
    assert profile.baseline.max_running_requests == 256


@pytest.mark.parametrize("gain", [1.0, 2.1, 4.0, 7.3])
def test_there_are_drafts_enough_for_the_accept_length(tmp_path: FilePath, gain: float) -> None:
    """An engine gains at most its drafts and one token in a step; the simulated one must come to its mean."""
    speed = load_profile(saved(tmp_path, linear(8.0, gain=gain))).speculative
    assert speed.accept_length == pytest.approx(gain)
    assert speed.draft_steps >= gain - 1


def test_engines_on_gpus_of_their_own_do_not_slow_each_other(tmp_path: FilePath) -> None:
    profile = load_profile(saved(tmp_path, sweep({1: 80.0}, {1: (100.0, 2.0)}, placement=Placement.SEPARATE)))
    assert (profile.speculative.mixed_fraction, profile.baseline.mixed_fraction) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("change", "key", "value", "allowed"),
    [
        ({"version": 2}, "version", 2, "1"),
        ({"key": {"placement": "single"}}, "key.placement", "single", "shared, separate"),
        ({"baseline": {"cells": []}}, "baseline.cells", [], "one cell or more"),
        ({"baseline": {"speed": 1}}, "baseline.speed", 1, "a mapping with the keys cells"),
        (
            {"speculative": {"cells": [{"concurrency": 1, "tokens_per_second": [9], "accept_length": [99]}]}},
            "speculative.cells.accept_length",
            99.0,
            "from 1 to 64",
        ),
    ],
)
def test_a_faulty_calibration_is_one_clear_error(
    tmp_path: FilePath, change: dict[str, object], key: str, value: object, allowed: str
) -> None:
    """`sim` and `demo` say what `check` would say of the file, and end with 2."""
    document = {**yaml.safe_load(dump_calibration(linear(8.0))), **change}
    file = tmp_path / "bad.yaml"
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(ProfileError) as caught:
        load_profile(file)
    assert (caught.value.place, caught.value.key, caught.value.value) == (str(file), key, value)
    assert allowed in caught.value.allowed
    for command in (["sim"], ["demo", "--seconds", "1"]):
        found = CliRunner().invoke(app, [*command, "--profile", str(file)])
        assert found.exit_code == 2
        assert f"{file}: {key}: {value!r} is not allowed; allowed: " in found.stderr
