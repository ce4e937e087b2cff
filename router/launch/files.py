"""Typed access to a small YAML or JSON file; every refusal names the place, the key and what would do."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml

V = TypeVar("V")


class LaunchFileError(ValueError):
    """A file that the launcher reads is missing or wrong; the text has place, key and what is allowed."""


def parse_yaml(text: str, place: str) -> object:
    """Plain values. Raises LaunchFileError."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise LaunchFileError(f"{place}: is not YAML: {' '.join(str(error).split())}") from None


@dataclass(frozen=True, slots=True)
class Reader:
    """One mapping of a file."""

    place: str
    values: Mapping[Any, Any]

    @staticmethod
    def of(place: str, value: object, keys: Collection[str] | None = None) -> Reader:
        """The mapping, without unknown keys if the known ones are given. Raises LaunchFileError."""
        if not isinstance(value, dict):
            raise LaunchFileError(f"{place}: is not a mapping of keys to values")
        unknown = [key for key in value if keys is not None and key not in keys]
        if unknown:
            raise LaunchFileError(
                f"{place}: {unknown[0]}: is an unknown key; allowed: {', '.join(keys or ())}"
            )
        return Reader(place, value)

    def fail(self, key: str, allowed: str) -> LaunchFileError:
        """The error for a value that will not do."""
        return LaunchFileError(
            f"{self.place}: {key}: {self.values.get(key)!r} is not allowed; allowed: {allowed}"
        )

    def text(self, key: str, default: str = "") -> str:
        """Text, or the default where there is none."""
        return self._get(key, str, "text", default)

    def whole(self, key: str, least: int = 0) -> int | None:
        """A whole number, or None where there is none."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.fail(key, f"a whole number from {least}")
        return value

    def needed(self, key: str, least: int = 1) -> int:
        """A whole number that must be there."""
        value = self.whole(key, least)
        if value is None:
            raise LaunchFileError(f"{self.place}: {key}: is missing; allowed: a whole number from {least}")
        return value

    def flag(self, key: str) -> bool:
        """A truth value, false where there is none."""
        return self._get(key, bool, "true, false", False)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        found = self._get(key, list, "a list of texts", [])
        if not all(isinstance(each, str) for each in found):
            raise self.fail(key, "a list of texts")
        return tuple(found)

    def mapping(self, key: str) -> dict[str, str]:
        """Text by text."""
        found = self._get(key, dict, "a mapping of text to text", {})
        if not all(isinstance(each, str) for pair in found.items() for each in pair):
            raise self.fail(key, "a mapping of text to text (put quotes around numbers)")
        return dict(found)

    def _get(self, key: str, kind: type[V], allowed: str, default: V) -> V:
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, kind):
            raise self.fail(key, allowed)
        return value
