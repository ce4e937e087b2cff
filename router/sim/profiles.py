"""Profiles by name or from a file, with one clear error for whatever a file gets wrong."""

from __future__ import annotations

from importlib import resources
from pathlib import Path as FilePath
from typing import Any

import yaml

from router.calibration import CalibrationError, calibration_in, is_calibration
from router.core.calibration import Calibration
from router.core.words import Path
from router.sim.calibrated import profile_of
from router.sim.speed import Curve, EngineSpeed, Profile

PROFILE_NAMES = ("seed", "h200", "strong")

_MIXED_FRACTIONS = {Path.BASELINE: 0.52, Path.SPECULATIVE: 0.70}
_DRAFT_STEPS = 3
_MOST_DRAFT_STEPS = 64
_KEYS: tuple[str, ...] = (
    "tokens_per_second",
    "step_seconds",
    "prefill_base_seconds",
    "prefill_seconds_per_token",
    "mixed_fraction",
    "max_running_requests",
)
_SPECULATIVE_KEYS = (*_KEYS, "accept_length", "draft_steps")


class ProfileError(ValueError):
    """A profile that can't be used: names the place, the key, the value and what is allowed."""

    def __init__(self, place: str, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{place}: {key}: {value!r} is not allowed; allowed: {allowed}")
        self.place = place
        self.key = key
        self.value = value
        self.allowed = allowed


def load_profile(name_or_path: str | FilePath) -> Profile:
    """The built-in profile of that name, or the one that a file describes. Raises ProfileError.

    A file is a calibration (`router.calibration.file`), or it has the keys `speculative` and `baseline`, each
    with `tokens_per_second` (aggregate, by concurrency) or `step_seconds` (by batch size), and optionally
    `prefill_base_seconds`, `prefill_seconds_per_token`, `mixed_fraction`, `max_running_requests`; speculative
    also `accept_length` and `draft_steps`.
    """
    return load_engines(name_or_path)[0]


def load_engines(name_or_path: str | FilePath) -> tuple[Profile, Calibration | None]:
    """As `load_profile`; with the calibration, if the file is one. Raises ProfileError."""
    text, place = _read(str(name_or_path))
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ProfileError(place, "(file)", str(error).replace("\n", " "), "valid YAML") from error
    if is_calibration(document):
        calibration = _calibration(document, place)
        return profile_of(calibration, FilePath(place).stem), calibration
    return _profile(document, place), None


def _calibration(document: object, place: str) -> Calibration:
    try:
        found = calibration_in(document, place)
    except CalibrationError as error:
        raise ProfileError(error.place, error.key, error.value, error.allowed) from None
    if found.accept_length > _MOST_DRAFT_STEPS:
        allowed = f"a median from 1 to {_MOST_DRAFT_STEPS}"
        raise ProfileError(place, "speculative.cells.accept_length", found.accept_length, allowed)
    return found


def _profile(document: object, place: str) -> Profile:
    reader = _Reader(place)
    top = reader.mapping("(file)", document, ("name", "speculative", "baseline"))
    return Profile(
        name=str(top.get("name", FilePath(place).stem)),
        speculative=_engine(reader, Path.SPECULATIVE, top.get("speculative")),
        baseline=_engine(reader, Path.BASELINE, top.get("baseline")),
    )


def _read(name: str) -> tuple[str, str]:
    if name in PROFILE_NAMES:
        return (resources.files("router.sim") / "data" / f"{name}.yaml").read_text(encoding="utf-8"), name
    try:
        return FilePath(name).read_text(encoding="utf-8"), name
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(PROFILE_NAMES)
        raise ProfileError(
            "profile", "name", name, f"{known} or a readable file: a profile or a calibration ({error})"
        ) from error


class _Reader:
    """Typed access to a document; every refusal is a ProfileError with the key's full path."""

    def __init__(self, place: str) -> None:
        self._place = place

    def fail(self, key: str, value: object, allowed: str) -> ProfileError:
        return ProfileError(self._place, key, value, allowed)

    def mapping(self, key: str, value: object, keys: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.fail(key, value, f"a mapping with the keys {', '.join(keys)}")
        for name in value:
            if name not in keys:
                raise self.fail(
                    f"{key}.{name}".removeprefix("(file)."), value[name], f"the keys {', '.join(keys)}"
                )
        return value

    def number(self, key: str, value: object, low: float, high: float, *, whole: bool = False) -> float:
        kind = "a whole number" if whole else "a number"
        bound = f"{kind} of at least {low:g}" if high == float("inf") else f"{kind} from {low:g} to {high:g}"
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            raise self.fail(key, value, bound)
        if not low <= value <= high:
            raise self.fail(key, value, bound)
        return value

    def rows(self, key: str, value: object) -> list[tuple[int, float]]:
        if not isinstance(value, dict) or not value:
            raise self.fail(key, value, "a mapping of concurrency to a number above 0")
        found = []
        for size, amount in value.items():
            batch = int(self.number(f"{key} (concurrency)", size, 1, 1_000_000, whole=True))
            found.append((batch, self.number(f"{key}.{size}", amount, 1e-9, float("inf"))))
        return sorted(found)


def _engine(reader: _Reader, path: Path, value: object) -> EngineSpeed:
    name = path.value
    keys = _SPECULATIVE_KEYS if path is Path.SPECULATIVE else _KEYS
    fields = reader.mapping(name, value, keys)

    def number(key: str, default: float, low: float, high: float, *, whole: bool = False) -> float:
        return reader.number(f"{name}.{key}", fields.get(key, default), low, high, whole=whole)

    infinity = float("inf")
    draft_steps = (
        int(number("draft_steps", _DRAFT_STEPS, 1, _MOST_DRAFT_STEPS, whole=True))
        if "draft_steps" in keys
        else 0
    )
    accept_length = number("accept_length", 1.0, 1.0, draft_steps + 1)
    return EngineSpeed(
        steps=_curve(reader, name, fields, accept_length),
        accept_length=accept_length,
        draft_steps=draft_steps,
        prefill_base=number("prefill_base_seconds", 0.01, 0, infinity),
        prefill_per_token=number("prefill_seconds_per_token", 2e-5, 0, infinity),
        mixed_fraction=number("mixed_fraction", _MIXED_FRACTIONS[path], 0.01, 1),
        max_running_requests=int(number("max_running_requests", 256, 1, infinity, whole=True)),
    )


def _curve(reader: _Reader, name: str, fields: dict[str, Any], accept_length: float) -> Curve:
    given = [key for key in ("tokens_per_second", "step_seconds") if key in fields]
    if len(given) != 1:
        raise reader.fail(name, given or None, "exactly one of tokens_per_second and step_seconds")
    rows = reader.rows(f"{name}.{given[0]}", fields[given[0]])
    if given[0] == "tokens_per_second":
        rows = [(batch, batch * accept_length / rate) for batch, rate in rows]
    return Curve(tuple(rows))
