"""Profiles from YAML files: the shipped ones, and an operator's own beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from router.core.words import Placement
from router.launch.files import LaunchFileError, Reader, parse_yaml
from router.launch.plan.profile import (
    HardwareProfile,
    RefusedFlag,
    SpeculationProfile,
    Tier,
    profile_problem,
)

AUTO = "auto"
_SPECULATION = (
    *("description", "algorithm", "draft_model", "steps", "topk", "draft_tokens", "tiers", "placements"),
    *("args", "warnings"),
)
_HARDWARE = (
    "description",
    "extends",
    "gpus",
    "attention",
    "args",
    "env",
    "env_alone",
    "refused",
    "notes",
    "notes_shared",
)
_MOST_EXTENDS = 8


class Profiles:
    """All profiles that can be named. A file of `folder` wins over a shipped one of the same name.

    A folder holds `speculation/NAME.yaml` and `hardware/NAME.yaml`.
    """

    def __init__(self, folder: Path | None = None) -> None:
        shipped: list[Traversable] = [resources.files("router.launch") / "profiles"]
        self._roots = [folder, *shipped] if folder is not None else shipped

    def speculation_names(self) -> list[str]:
        """Sorted."""
        return self._names("speculation")

    def hardware_names(self) -> list[str]:
        """Sorted."""
        return self._names("hardware")

    def speculation(self, name: str) -> SpeculationProfile:
        """The profile of that name. Raises LaunchFileError."""
        place, text = self._read("speculation", name)
        return _speculation(name, Reader.of(place, parse_yaml(text, place), _SPECULATION))

    def hardware(self, name: str, gpu_names: Sequence[str] = ()) -> HardwareProfile:
        """The profile of that name; `auto` is the one that knows the GPUs. Raises LaunchFileError."""
        return self._hardware(self._known(gpu_names) if name == AUTO else name, _MOST_EXTENDS)

    def _known(self, gpu_names: Sequence[str]) -> str:
        for name in self.hardware_names():
            place, text = self._read("hardware", name)
            patterns = Reader.of(place, parse_yaml(text, place), _HARDWARE).texts("gpus")
            if gpu_names and all(any(pattern in gpu for pattern in patterns) for gpu in gpu_names):
                return name
        return "generic"

    def _hardware(self, name: str, depth: int) -> HardwareProfile:
        place, text = self._read("hardware", name)
        reader = Reader.of(place, parse_yaml(text, place), _HARDWARE)
        parent = reader.text("extends")
        if parent and not depth:
            raise reader.fail("extends", "a profile that does not extend this one")
        base = self._hardware(parent, depth - 1) if parent else HardwareProfile("")
        attention = reader.mapping("attention")
        refused = reader.mapping("refused")
        return HardwareProfile(
            name=name,
            description=reader.text("description"),
            attention_mla=attention.get("mla", base.attention_mla),
            attention_gqa=attention.get("gqa", base.attention_gqa),
            args=(*base.args, *reader.texts("args")),
            env={**base.env, **reader.mapping("env")},
            env_alone={**base.env_alone, **reader.mapping("env_alone")},
            refused=(*(RefusedFlag(*each) for each in refused.items()), *base.refused),
            notes=(*base.notes, *reader.texts("notes")),
            notes_shared=(*base.notes_shared, *reader.texts("notes_shared")),
        )

    def _names(self, kind: str) -> list[str]:
        return sorted({file.name.removesuffix(".yaml") for file in self._files(kind)})

    def _files(self, kind: str) -> Iterator[Traversable]:
        for root in self._roots:
            if (root / kind).is_dir():
                yield from (file for file in (root / kind).iterdir() if file.name.endswith(".yaml"))

    def _read(self, kind: str, name: str) -> tuple[str, str]:
        for file in self._files(kind):
            if file.name == f"{name}.yaml":
                try:
                    return f"{kind} profile {name}", file.read_text(encoding="utf-8")
                except (OSError, UnicodeDecodeError) as error:
                    raise LaunchFileError(f"{kind} profile {name}: cannot be read: {error}") from None
        known = ", ".join(self._names(kind))
        raise LaunchFileError(f"{kind} profile {name}: there is none; allowed: {known}")


def _speculation(name: str, reader: Reader) -> SpeculationProfile:
    placements = reader.texts("placements") or tuple(Placement)
    if not set(placements) <= set(Placement):
        raise reader.fail("placements", ", ".join(Placement))
    profile = SpeculationProfile(
        name=name,
        description=reader.text("description"),
        algorithm=reader.text("algorithm") or None,
        draft_model=reader.flag("draft_model"),
        steps=reader.whole("steps", 1),
        topk=reader.whole("topk", 1),
        draft_tokens=reader.whole("draft_tokens", 1),
        tiers=tuple(_tiers(reader)),
        placements=tuple(Placement(each) for each in placements),
        args=reader.texts("args"),
        warnings=reader.texts("warnings"),
    )
    problem = profile_problem(profile)
    if problem:
        raise LaunchFileError(f"{reader.place}: {problem}")
    return profile


def _tiers(reader: Reader) -> Iterator[Tier]:
    tiers = reader.values.get("tiers") or {}
    form = "a mapping of batch size to a list of steps, as 8: [0, 3]"
    if not isinstance(tiers, dict):
        raise reader.fail("tiers", form)
    for batch, steps in tiers.items():
        numbers = [batch, *steps] if isinstance(steps, list) and steps else [None]
        if not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in numbers):
            raise reader.fail("tiers", form)
        yield Tier(batch, tuple(steps))
