"""What `spec-router plan --json` printed, as what there is to build on."""

from __future__ import annotations

import json
from pathlib import Path as FilePath
from typing import Any

from router.advise.means import Means
from router.core.words import Path, Placement

MAX_FILE_BYTES = 4 << 20
# Refusals that say something about room; the others are about wishes that contradict each other.
ROOM = ("memory", "uneven", "gpus")
COMMAND = "the output of `spec-router plan --json`"


class PlanFileError(ValueError):
    """A plan that cannot be used: names the file, the key, the value and what is allowed."""

    def __init__(self, place: str, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{place}: {key}: {value!r} is not allowed; allowed: {allowed}")


def read_plan(path: FilePath) -> Means:
    """What the plan in a file says of memory and GPUs. Raises PlanFileError."""
    place = str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise PlanFileError(place, "(file)", str(error), f"a readable file, {COMMAND}") from None
    if len(data) > MAX_FILE_BYTES:
        raise PlanFileError(place, "(file)", f"{len(data)} bytes or more", "at most 4 MiB")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise PlanFileError(place, "(file)", str(error), f"JSON, {COMMAND}") from None
    return means_of(document, place)


def means_of(document: object, place: str) -> Means:
    """What a plan says, fitting or refused; `place` names it in errors. Raises PlanFileError."""
    reader = _Reader(place)
    top = reader.mapping("(file)", document)
    fits = reader.flag("fits", top.get("fits"))
    placement = reader.placement("placement", top.get("placement"))
    alone = reader.by("profile", "alone", top.get("alone"))
    plain, adaptive = alone.get("baseline"), alone.get("adaptive")
    found = Means(
        adaptive=None if adaptive is None else reader.flag("alone.adaptive.fits", adaptive.get("fits")),
        kv_tokens_alone=None
        if plain is None
        else reader.tokens("alone.baseline.tokens", plain.get("tokens")),
    )
    if not fits:
        return _refused(reader, top, placement, found)
    pools = {
        path: reader.tokens(f"engines.{path}.tokens", engine.get("tokens"))
        for path, engine in reader.by("path", "engines", top.get("engines")).items()
    }
    return found.over(_fitting(placement, pools))


def _fitting(placement: Placement, pools: dict[str, int | None]) -> Means:
    speculative, baseline = (pools.get(path.value) for path in Path)
    if placement is Placement.SHARED:
        return Means(fits_twice=True, kv_tokens=baseline, kv_tokens_speculative=speculative)
    if placement is Placement.SEPARATE:
        return Means(own_gpus=True)
    return Means()


def _refused(reader: _Reader, top: dict[str, Any], placement: Placement, found: Means) -> Means:
    kind, reason = top.get("kind"), top.get("reason")
    if kind not in ROOM:
        raise reader.refusal("kind", kind, f"a plan that fits, or one refused for {', '.join(ROOM)}")
    if placement is Placement.SHARED:
        return found.over(Means(fits_twice=False, refusal=reason if isinstance(reason, str) else ""))
    return found.over(Means(own_gpus=False)) if placement is Placement.SEPARATE else found


class _Reader:
    """Typed access to the document."""

    def __init__(self, place: str) -> None:
        self._place = place

    def refusal(self, key: str, value: object, allowed: str) -> PlanFileError:
        return PlanFileError(self._place, key, value, allowed)

    def mapping(self, key: str, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.refusal(key, value, COMMAND if key == "(file)" else "a mapping")
        return value

    def by(self, name: str, key: str, value: object) -> dict[str, dict[str, Any]]:
        """The mappings of a list, by what each calls itself."""
        if not isinstance(value, list):
            raise self.refusal(key, value, f"a list, as in {COMMAND}")
        items = [self.mapping(f"{key}[{at}]", item) for at, item in enumerate(value)]
        return {str(item.get(name)): item for item in items}

    def flag(self, key: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise self.refusal(key, value, "true, false")
        return value

    def placement(self, key: str, value: object) -> Placement:
        if not isinstance(value, str) or value not in tuple(Placement):
            raise self.refusal(key, value, ", ".join(Placement))
        return Placement(value)

    def tokens(self, key: str, value: object) -> int | None:
        """A size of a pool; None where an engine must measure it."""
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise self.refusal(key, value, "a whole number from 1, or null")
        return value
