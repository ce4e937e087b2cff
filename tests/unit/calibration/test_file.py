"""The calibration file: what is written is read, what is wrong is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import pytest
import yaml

from router.calibration import CalibrationError, dump_calibration, load_calibration
from router.calibration.file import parse_calibration
from router.core.calibration import (
    Calibration,
    Cell,
    Key,
    MixedCell,
    PathCalibration,
    Workload,
)
from router.core.words import Path, Placement

FULL = Calibration(
    Key(
        "llama",
        "llama-eagle3",
        "0.5.16",
        "9f2c",
        Placement.SHARED,
        {
            Path.SPECULATIVE: {"tp_size": 8, "speculative_num_steps": 3, "moe_a2a_backend": "none"},
            Path.BASELINE: {"quantization": None, "enable_torch_compile": False, "cpu_offload_gb": 0.5},
        },
    ),
    PathCalibration(
        (Cell(1, (445.0, 441.0), (2.16, 2.14)), Cell(8, (2707.0,), (2.08,))), 1.4e-5, (3.1,), 256
    ),
    PathCalibration((Cell(1, (336.0,)), Cell(8, (2313.0, 2300.0)))),
    (MixedCell(64, 8, 7218.0, 1759.0),),
    Workload(45.0, 160.0),
)


def document() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load(dump_calibration(FULL))
    return parsed


def test_what_is_written_is_read_again(tmp_path: FilePath) -> None:
    file = tmp_path / "calibration.yaml"
    file.write_text(dump_calibration(FULL, {"at": "2026-11-29T12:00:00Z", "note": "quiet machine"}))
    assert load_calibration(file) == FULL


def test_little_is_needed() -> None:
    text = """
    version: 1
    key: {placement: separate}
    speculative: {cells: [{concurrency: 1, tokens_per_second: [100], accept_length: [2]}]}
    baseline: {cells: [{concurrency: 1, tokens_per_second: [80]}]}
    """
    found = parse_calibration(text, "small.yaml")
    assert found.key == Key(placement=Placement.SEPARATE)
    assert found.workload == Workload()
    assert found.mixed == ()


def test_a_file_whose_flags_are_only_a_text_is_read() -> None:
    text = dump_calibration(replace(FULL, key=replace(FULL.key, flags="tp8, as in July", arguments={})))
    assert "arguments" not in text
    found = parse_calibration(text, "c.yaml").key
    assert (found.flags, found.arguments) == ("tp8, as in July", {})


@pytest.mark.parametrize(
    ("change", "key", "allowed"),
    [
        ({"version": 2}, "version", "1"),
        ({"verion": 1}, "verion", "a mapping with the keys"),
        ({"key": None}, "key", "a mapping"),
        ({"key": {"placement": "single"}}, "key.placement", "shared, separate"),
        ({"key": {"placement": "shared", "engine": 0.5}}, "key.engine", "a text in quotes"),
        (
            {"key": {"placement": "shared", "arguments": {"spec": {}}}},
            "key.arguments.spec",
            "speculative, baseline",
        ),
        (
            {"key": {"placement": "shared", "arguments": {"baseline": "tp 8"}}},
            "key.arguments.baseline",
            "a mapping of names to texts",
        ),
        (
            {"key": {"placement": "shared", "arguments": {"baseline": {"tp_size": [8]}}}},
            "key.arguments.baseline.tp_size",
            "a mapping of names to texts",
        ),
        (
            {"key": {"placement": "shared", "arguments": {"baseline": {"x": float("nan")}}}},
            "key.arguments.baseline.x",
            "finite numbers",
        ),
        (
            {"key": {"placement": "shared", "arguments": {"baseline": {True: 8}}}},
            "key.arguments.baseline.True",
            "a mapping of names to texts",
        ),
        ({"workload": {"output_tokens": 0}}, "workload.output_tokens", "at least 1"),
        ({"baseline": {}}, "baseline.cells", "a list"),
        ({"baseline": {"cells": []}}, "baseline.cells", "one cell or more"),
        (
            {"baseline": {"cells": [{"concurrency": 0, "tokens_per_second": [1]}]}},
            "baseline.cells[0].concurrency",
            "a whole number from 1",
        ),
        (
            {"baseline": {"cells": [{"concurrency": 1, "tokens_per_second": [float("nan")]}]}},
            "baseline.cells[0].tokens_per_second[0]",
            "a number of at least",
        ),
        (
            {"baseline": {"cells": [{"concurrency": 1, "tokens_per_second": []}]}},
            "baseline.cells[0].tokens_per_second",
            "one number or more",
        ),
        (
            {"baseline": {"cells": [{"concurrency": 1, "tokens_per_second": [1], "accept_length": [1]}]}},
            "baseline.cells[0].accept_length",
            "the keys concurrency, tokens_per_second",
        ),
        (
            {
                "speculative": {
                    "cells": [{"concurrency": 1, "tokens_per_second": [1, 2], "accept_length": [2]}]
                }
            },
            "speculative.cells[0].accept_length",
            "for each of the 2",
        ),
        ({"mixed": [{"baseline": 1}]}, "mixed[0].speculative", "a whole number"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_fault_is_named_with_its_place_value_and_what_is_allowed(
    change: dict[str, Any], key: str, allowed: str
) -> None:
    text = yaml.safe_dump({**document(), **change})
    with pytest.raises(CalibrationError) as raised:
        parse_calibration(text, "c.yaml")
    assert (raised.value.place, raised.value.key) == ("c.yaml", key)
    assert allowed in raised.value.allowed
    assert key in str(raised.value)


@pytest.mark.parametrize("text", [b"a: [", b"\xff\xfe", b"- 1"], ids=["syntax", "utf-8", "list"])
def test_a_file_that_is_no_calibration_is_refused(tmp_path: FilePath, text: bytes) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(text)
    with pytest.raises(CalibrationError, match=r"c\.yaml: \(file\)"):
        load_calibration(file)


def test_a_missing_and_a_huge_file_are_refused(tmp_path: FilePath) -> None:
    with pytest.raises(CalibrationError, match="readable"):
        load_calibration(tmp_path / "none.yaml")
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * (4 << 20) + b"\n")
    with pytest.raises(CalibrationError, match="at most 4 MiB"):
        load_calibration(huge)
