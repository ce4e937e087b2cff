"""Typed access to a calibration document; a refusal names the place, the key, the value, what is allowed."""

from __future__ import annotations

import math
from typing import Any

from router.core.arguments import Argument


class CalibrationError(ValueError):
    """A calibration that cannot be used."""

    def __init__(self, place: str, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{place}: {key}: {value!r} is not allowed; allowed: {allowed}")
        self.place = place
        self.key = key
        self.value = value
        self.allowed = allowed


class Reader:
    """Reads values out of a parsed document.

    Args:
        place: name of the file, for messages.
    """

    def __init__(self, place: str) -> None:
        self._place = place

    def refusal(self, key: str, value: object, allowed: str) -> CalibrationError:
        """The error to raise."""
        return CalibrationError(self._place, key, value, allowed)

    def mapping(self, key: str, value: object, keys: tuple[str, ...]) -> dict[str, Any]:
        """A mapping that has no other keys."""
        allowed = f"a mapping with the keys {', '.join(keys)}"
        if not isinstance(value, dict):
            raise self.refusal(key, value, allowed)
        for name in value:
            if name not in keys:
                raise self.refusal(f"{key}.{name}".removeprefix("(file)."), value[name], allowed)
        return value

    def sequence(self, key: str, value: object) -> list[Any]:
        """A list."""
        if not isinstance(value, list):
            raise self.refusal(key, value, "a list")
        return value

    def text(self, key: str, value: object) -> str | None:
        """A text or null."""
        if value is not None and (not isinstance(value, str) or not value):
            raise self.refusal(key, value, "a text in quotes, or null")
        return value

    def plain(self, key: str, value: object) -> dict[str, Argument]:
        """A mapping of names to single values."""
        allowed = "a mapping of names to texts, finite numbers, true, false or null"
        if not isinstance(value, dict):
            raise self.refusal(key, value, allowed)
        for name, item in value.items():
            single = item is None or isinstance(item, str | int) or _is_finite(item)
            if not isinstance(name, str) or not single:
                raise self.refusal(f"{key}.{name}", item, allowed)
        return value

    def number(self, key: str, value: object, least: float) -> float:
        """A finite number of at least `least`."""
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
            or value < least
        ):
            raise self.refusal(key, value, f"a number of at least {least:g}")
        return float(value)

    def numbers(self, key: str, value: object, least: float) -> tuple[float, ...]:
        """A list of such numbers."""
        items = self.sequence(key, value)
        return tuple(self.number(f"{key}[{index}]", item, least) for index, item in enumerate(items))

    def whole(self, key: str, value: object) -> int:
        """A whole number from 1 on."""
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
            raise self.refusal(key, value, "a whole number from 1 to 1000000")
        return value


def _is_finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)
