"""What is measured of a pair while it runs, as policies get to see it. What is not known is None, never 0."""

from __future__ import annotations

from dataclasses import dataclass

from router.core.words import Path


@dataclass(frozen=True, slots=True)
class PathLive:
    """One path at one moment.

    Attributes:
        active: our requests on it.
        at: monotonic time of the engine's reading that the rest is from.
        tokens_per_second: generated over the last seconds.
        accept_length: recent tokens per cycle and request.
        cache_hits: share of recent prompt tokens that its prefix cache had, 0…1.
        prefilled_per_second: prompt tokens computed over the last seconds, those of the cache left out.
    """

    active: int = 0
    at: float | None = None
    tokens_per_second: float | None = None
    accept_length: float | None = None
    cache_hits: float | None = None
    prefilled_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Live:
    """Both paths; `faults` counts how often a breaker has opened so far."""

    speculative: PathLive = PathLive()
    baseline: PathLive = PathLive()
    faults: int = 0

    def of(self, path: Path) -> PathLive:
        """The path's measurements."""
        return self.speculative if path is Path.SPECULATIVE else self.baseline

    @property
    def mixed(self) -> bool:
        """True while both paths have requests of ours."""
        return self.speculative.active > 0 and self.baseline.active > 0


NOTHING = Live()
