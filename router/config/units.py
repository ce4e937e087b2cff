"""Durations and sizes: `10s` is 10.0 seconds, `64MiB` is 67108864 bytes."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

from router.config.errors import Invalid
from router.config.scalars import typed

DURATION_FORMS = "a duration such as 250ms, 10s, 5m or 1h, or a number of seconds"
SIZE_FORMS = "a size such as 100B, 512KiB, 64MiB or 1GiB, or a whole number of bytes"
MAX_SECONDS = 365 * 86400
MAX_BYTES = 1 << 50

_SECONDS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600)}
_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
# Bounded so that no product leaves the range of Decimal; 350 decimals hold the smallest float.
_QUANTITY = re.compile(r"([0-9]{1,40}(?:\.[0-9]{1,350})?)([A-Za-z]+)")


def parse_duration(value: object) -> float:
    """Seconds, 0 or more. Raises Invalid for anything that isn't plainly a duration."""
    match value:
        case bool():
            raise Invalid("is not a duration", DURATION_FORMS)
        case int() | float():
            if not 0 <= value <= MAX_SECONDS:  # never true of nan
                raise Invalid("is not a duration between 0s and 8760h", DURATION_FORMS)
            return float(value)
        case str():
            seconds = float(_amount(value, _SECONDS, "duration", DURATION_FORMS))
            if seconds > MAX_SECONDS:
                raise Invalid("is not a duration between 0s and 8760h", DURATION_FORMS)
            return seconds
    raise Invalid("is not a duration", DURATION_FORMS)


def parse_size(value: object) -> int:
    """Bytes, 0 or more. Raises Invalid for anything that isn't plainly a whole number of bytes."""
    match value:
        case bool() | float():
            raise Invalid("is not a size", SIZE_FORMS)
        case int():
            size = Decimal(value)
        case str():
            size = _amount(value, _BYTES, "size", SIZE_FORMS)
        case _:
            raise Invalid("is not a size", SIZE_FORMS)
    if size != size.to_integral_value():
        raise Invalid("is not a whole number of bytes", SIZE_FORMS)
    if not 0 <= size <= MAX_BYTES:
        raise Invalid("is not a size between 0B and 1024TiB", SIZE_FORMS)
    return int(size)


def format_duration(seconds: float) -> str:
    """The shortest exact form that `parse_duration` reads back to the same number."""
    exact = Decimal(repr(float(seconds)))
    for unit in ("h", "m", "s", "ms"):
        count = exact / _SECONDS[unit]
        if count == count.to_integral_value() and count >= 1 and float(count * _SECONDS[unit]) == seconds:
            return f"{int(count)}{unit}"
    return f"{exact.normalize():f}s" if exact else "0s"


def format_size(size: int) -> str:
    """The shortest exact form that `parse_size` reads back to the same number."""
    unit = next((unit for unit in ("TiB", "GiB", "MiB", "KiB") if size and size % _BYTES[unit] == 0), "B")
    return f"{size // _BYTES[unit]}{unit}"


def _amount(text: str, units: dict[str, Decimal] | dict[str, int], kind: str, forms: str) -> Decimal:
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise Invalid(f"is not a {kind}", forms)
    number, unit = found.groups()
    if unit not in units:
        raise Invalid(f"has the unknown unit {unit[:20]}", forms)
    return Decimal(number) * units[unit]


def _duration(value: object) -> float:
    return parse_duration(typed(value))


def _positive_duration(value: object) -> float:
    seconds = _duration(value)
    if seconds == 0:
        raise Invalid("must be more than zero", DURATION_FORMS)
    return seconds


def _positive_size(value: object) -> int:
    size = parse_size(typed(value))
    if size == 0:
        raise Invalid("must be more than zero", SIZE_FORMS)
    return size


_SHOW_DURATION = PlainSerializer(format_duration, return_type=str, when_used="json")
_SHOW_SIZE = PlainSerializer(format_size, return_type=str, when_used="json")

Duration = Annotated[float, BeforeValidator(_duration), _SHOW_DURATION]
PositiveDuration = Annotated[float, BeforeValidator(_positive_duration), _SHOW_DURATION]
PositiveSize = Annotated[int, BeforeValidator(_positive_size), _SHOW_SIZE]
