from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.config.errors import Invalid
from router.config.units import (
    MAX_BYTES,
    MAX_SECONDS,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("250ms", 0.25),
        ("10s", 10.0),
        ("5m", 300.0),
        ("1h", 3600.0),
        ("1.5s", 1.5),
        ("0s", 0.0),
        (10, 10.0),
        (0.5, 0.5),
        (0, 0.0),
        ("8760h", 31_536_000.0),
    ],
)
def test_durations_are_seconds(value: object, seconds: float) -> None:
    parsed = parse_duration(value)
    assert parsed == seconds
    assert type(parsed) is float


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("100B", 100),
        ("512KiB", 524_288),
        ("64MiB", 67_108_864),
        ("1GiB", 1_073_741_824),
        ("1TiB", 1 << 40),
        ("1.5KiB", 1536),
        (4096, 4096),
        (0, 0),
    ],
)
def test_sizes_are_bytes(value: object, size: int) -> None:
    parsed = parse_size(value)
    assert parsed == size
    assert type(parsed) is int


@pytest.mark.parametrize(
    "value",
    [
        "",
        "10",
        "s",
        "10 s",
        " 10s",
        "10s ",
        "-1s",
        "+1s",
        "1d",
        "1S",
        "1us",
        "nan",
        "inf",
        "infs",
        "nans",
        "1e3s",
        "1,5s",
        "1_000s",
        "٣s",
        ".5s",
        "5.s",
        "1m30s",
        "9" * 500 + "s",
        "0." + "1" * 500 + "s",
        "8761h",
        float("nan"),
        float("inf"),
        float("-inf"),
        -1,
        -0.001,
        MAX_SECONDS + 1,
        10**400,
        True,
        False,
        None,
        [],
        {},
    ],
)
def test_what_is_no_duration(value: object) -> None:
    with pytest.raises(Invalid) as caught:
        parse_duration(value)
    assert "10s" in caught.value.allowed


@pytest.mark.parametrize(
    "value",
    [
        "",
        "10",
        "64MB",
        "64M",
        "64mib",
        "64 MiB",
        "-1B",
        "1.5B",
        "0.3KiB",
        "inf",
        "nan",
        "9" * 500 + "B",
        "1025TiB",
        1.0,
        1.5,
        float("nan"),
        float("inf"),
        -1,
        MAX_BYTES + 1,
        10**400,
        True,
        False,
        None,
        [],
        {},
    ],
)
def test_what_is_no_size(value: object) -> None:
    with pytest.raises(Invalid) as caught:
        parse_size(value)
    assert "64MiB" in caught.value.allowed


def test_an_unknown_unit_is_named() -> None:
    with pytest.raises(Invalid, match=r"^has the unknown unit MB$"):
        parse_size("64MB")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (75, "75s"),
        (300, "5m"),
        (3600, "1h"),
        (1.5, "1500ms"),
        (0.0001, "0.0001s"),
    ],
)
def test_durations_are_shown_as_people_write_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0B"), (100, "100B"), (1536, "1536B"), (1 << 26, "64MiB")])
def test_sizes_are_shown_as_people_write_them(size: int, text: str) -> None:
    assert format_size(size) == text


@given(st.floats(min_value=0, max_value=MAX_SECONDS))
def test_a_shown_duration_reads_back_exactly(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.integers(min_value=0, max_value=MAX_BYTES))
def test_a_shown_size_reads_back_exactly(size: int) -> None:
    assert parse_size(format_size(size)) == size
