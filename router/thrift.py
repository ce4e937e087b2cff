"""What every request asks for, made less often than it is asked for."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping

from router.core.live import PathLive
from router.core.load import EngineLoad, Readings
from router.core.rid import RID_LENGTH
from router.core.words import Path

UNKNOWN = PathLive()
ID_BATCH = 64


def new_ids() -> Iterator[bytes]:
    """Ids of `RID_LENGTH` hex digits that nobody can guess; the system is asked for chance once for many."""
    while True:
        chance = secrets.token_hex(ID_BATCH * RID_LENGTH // 2).encode()
        for begin in range(0, len(chance), RID_LENGTH):
            yield chance[begin : begin + RID_LENGTH]


class Once:
    """Does something once, soon, however often it is asked for until then.

    Args:
        what: to be done.
        soon: calls it once what happens at this moment is done.
    """

    def __init__(self, what: Callable[[], object], soon: Callable[[Callable[[], object]], object]) -> None:
        self._what = what
        self._soon = soon
        self._asked = False

    def __call__(self) -> None:
        """Ask for it."""
        if not self._asked:
            self._asked = True
            self._soon(self._do)

    def _do(self) -> None:
        self._asked = False
        self._what()


class Measure:
    """What the engines say of their speed now: made once for each reading, for it is asked at every request.

    Args:
        readings: of the engines, by the paths that they stand for at the moment.
    """

    def __init__(self, readings: Mapping[Path, Readings]) -> None:
        self._readings = readings
        self._made: dict[Path, tuple[EngineLoad, PathLive]] = {}

    def __call__(self, path: Path) -> PathLive:
        """The engine of `path`."""
        found = self._readings.get(path)
        latest = found.latest() if found is not None else None
        if found is None or latest is None:
            return UNKNOWN
        made = self._made.get(path)
        if made is None or made[0] is not latest:
            rate, prompts = found.tokens_per_second(), found.prefilled_per_second()
            made = latest, PathLive(0, latest.at, rate, latest.accept_length, latest.cache_hits, prompts)
            self._made[path] = made
        return made[1]
