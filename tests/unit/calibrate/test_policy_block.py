"""What is to be put into the configuration is what the configuration takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath
from random import Random

import pytest

from router.calibrate.measured import Measured
from router.calibrate.policy_block import policy_block
from router.calibrate.result import Result, assess
from router.calibration import dump_calibration
from router.config import Config, load_config
from router.core.words import Path, Placement
from tests.support.sweeps import UNSEEN_BASELINE, UNSEEN_EAGLE, linear
from tests.unit.calibrate.build import KEY, profile, swept, table

ENGINES = "speculative: {url: 'http://127.0.0.1:1'}, baseline: {url: 'http://127.0.0.1:2'}"
SIZES = (1, 2, 4, 8, 16, 32, 64)


def loaded(result: Result, folder: FilePath, name: str = "calibration.yaml") -> Config:
    assert result.derived is not None
    (folder / name).write_text(dump_calibration(result.derived.calibration))
    block = policy_block(result, name)
    assert block is not None
    file = folder / "config.yaml"
    placement = result.measured.key.placement
    file.write_text(f"pairs: [{{placement: {placement}, {ENGINES}}}]\n{block}")
    return load_config(file, {})


def judged(found: Measured) -> Result:
    return assess(found, Random(1).random, 50)


def swept_linear(crossover: float, **changes: object) -> Measured:
    found = swept(linear(crossover, limit=64), SIZES)
    return replace(found, **changes)  # type: ignore[arg-type]


def test_a_crossover_becomes_a_calibrated_policy_with_the_band_for_a_fallback(tmp_path: FilePath) -> None:
    result = judged(swept_linear(12.0))
    policy = loaded(result, tmp_path).policy
    assert policy.kind == "calibrated"
    assert policy.calibration == str(tmp_path / "calibration.yaml")
    assert (policy.high, policy.dwell) == (15, 10.0)
    assert 1 <= policy.low <= 6
    block = policy_block(result, "calibration.yaml")
    assert block is not None
    assert "# spec-router calibrate, 2026-11-29T12:00:00Z:" in block
    assert "crossover at 12 requests in flight at accept length 2.00 (90 % interval" in block


def test_where_speculation_never_pays_the_baseline_is_pinned(tmp_path: FilePath) -> None:
    policy = loaded(judged(swept(profile("seed"), (1, 30, 70, 250))), tmp_path).policy
    assert (policy.kind, policy.path) == ("pinned", Path.BASELINE)


def test_with_gpus_of_their_own_both_serve_even_so(tmp_path: FilePath) -> None:
    """There each request goes where it adds most, and the speculative engine's GPUs add something."""
    found = swept(profile("seed"), (1, 30, 70, 250))
    result = judged(replace(found, key=replace(KEY, placement=Placement.SEPARATE)))
    policy = loaded(result, tmp_path).policy
    assert (policy.kind, policy.high, policy.low) == ("calibrated", 2, 1)


def test_where_it_always_pays_the_largest_measured_load_is_the_high_watermark(tmp_path: FilePath) -> None:
    """Nothing is known of loads above it, and the accept length may fall: a pin would meet neither."""
    result = judged(swept(linear(12.0, limit=64), SIZES, accept_length=20.0))
    policy = loaded(result, tmp_path).policy
    assert (policy.kind, policy.high, policy.low) == ("calibrated", 64, 32)


def test_the_high_watermark_is_not_above_what_the_speculative_engine_runs(tmp_path: FilePath) -> None:
    """`spec-router launch` refuses a watermark above it."""
    most = {Path.SPECULATIVE: 10, Path.BASELINE: 64}
    policy = loaded(judged(swept_linear(12.0, max_running_requests=most)), tmp_path).policy
    assert policy.high == 10


@pytest.mark.parametrize("crossover", [1.1, 1.5, 2.0, 3.0, 30.0])
@pytest.mark.parametrize("most", [1, 2, 64, None])
def test_watermarks_are_whole_and_in_order(crossover: float, most: int | None, tmp_path: FilePath) -> None:
    result = judged(swept_linear(crossover, max_running_requests=dict.fromkeys(Path, most)))
    policy = loaded(result, tmp_path).policy
    assert 0 < policy.low < policy.high


@pytest.mark.parametrize("name", ["a b.yaml", "${HOME}.yaml", "null", "ü: #.yaml", '"q".yaml', "1"])
def test_any_name_of_a_file_arrives(name: str, tmp_path: FilePath) -> None:
    policy = loaded(judged(swept_linear(12.0)), tmp_path, name).policy
    assert policy.calibration == str(tmp_path / name)


def test_a_start_that_is_no_date_stays_a_comment(tmp_path: FilePath) -> None:
    result = judged(swept_linear(12.0, started="now\npolicy: {}\u2028x"))
    assert loaded(result, tmp_path).policy.kind == "calibrated"


def test_without_a_sure_crossover_there_is_none() -> None:
    assert policy_block(judged(table(UNSEEN_BASELINE, UNSEEN_EAGLE)), "c.yaml") is None
