"""A measurement is kept as JSON and comes back as it was."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path as FilePath

import pytest

from router.calibrate.measured import Routed
from router.calibrate.measured_file import (
    MAX_FILE_BYTES,
    MeasuredError,
    dump_measured,
    load_measured,
    parse_measured,
)
from router.core.words import Path
from tests.support.sweeps import SEEN_BASELINE, SEEN_EAGLE
from tests.unit.calibrate.build import spoiled, table, together

FULL = replace(
    spoiled(table(SEEN_BASELINE, SEEN_EAGLE), 0, failures={"cut": 2}, problems=("client at its limit",)),
    both=together(),
    routed=(Routed(8, "chat", 2500.0, 1.0, 0.7, ()),),
    max_running_requests={Path.BASELINE: None, Path.SPECULATIVE: 48},
    notes=("quiet machine",),
)


def test_what_is_written_is_read_again(tmp_path: FilePath) -> None:
    file = tmp_path / "measured.json"
    file.write_bytes(dump_measured(FULL))
    assert load_measured(file) == FULL


def test_a_number_that_is_none_is_still_none_after_reading() -> None:
    """JSON has no NaN; a window without an answer must not cost the whole measurement."""
    found = parse_measured(dump_measured(spoiled(FULL, 3, spread=math.nan, tokens_per_second=math.inf)), "m")
    assert math.isnan(found.alone[3].spread)
    assert math.isnan(found.alone[3].tokens_per_second)
    assert found.alone[4] == FULL.alone[4]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"{", "m.json: .*allowed: JSON"),
        (b"\xff", "m.json: "),
        (b"[]", "m.json: version: None is not allowed; allowed: 1"),
        (b'{"version": 2}', "m.json: version: 2 is not allowed; allowed: 1"),
        (b'{"version": 1, "alone": 3}', "m.json: "),
        (b'{"version": 1, "alone": [3]}', "m.json: "),
        (dump_measured(FULL).replace(b'"baseline"', b'"bse"', 1), r"'bse' - at `\$"),
        (dump_measured(FULL).replace(b'"concurrency": 1,', b'"concurrency": "a",', 1), r"concurrency"),
    ],
)
def test_what_is_wrong_is_named(data: bytes, expected: str) -> None:
    with pytest.raises(MeasuredError, match=expected):
        parse_measured(data, "m.json")


def test_a_file_that_cannot_be_read_is_named(tmp_path: FilePath) -> None:
    with pytest.raises(MeasuredError, match=r"none.json: .*No such file"):
        load_measured(tmp_path / "none.json")
    large = tmp_path / "large.json"
    large.write_bytes(b" " * (MAX_FILE_BYTES + 1))
    with pytest.raises(MeasuredError, match="at most 16 MiB"):
        load_measured(large)
