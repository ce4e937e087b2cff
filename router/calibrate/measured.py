"""What the measuring half fills in: values as they were measured, nothing derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from router.core.calibration import Key
from router.core.words import Path


@dataclass(frozen=True, slots=True)
class Alone:
    """One engine alone: one visit to one concurrency with one group of requests.

    Attributes:
        group: what was asked, by name.
        concurrency: requests held in flight.
        tokens_per_second: aggregate output tokens per second.
        accept_length: tokens per draft-and-verify cycle and request; None for the baseline.
        success_rate: share of the ended requests that were answered well, 0 to 1.
        failures: how many of the others, by reason.
        drain_seconds: from the last new request to the last end; None: not looked at.
        spread: half-width of the 90 % interval of `tokens_per_second` within the window, relative to it.
        ttft_p50, tpot_p50: seconds; None where no answer was streamed.
        prompt_tokens, cached_tokens, output_tokens: means per request.
        problems: why the cell must not be used.
    """

    path: Path
    group: str
    concurrency: int
    tokens_per_second: float
    accept_length: float | None
    success_rate: float
    failures: Mapping[str, int]
    drain_seconds: float | None
    spread: float
    ttft_p50: float | None
    tpot_p50: float | None
    prompt_tokens: float
    cached_tokens: float
    output_tokens: float
    problems: tuple[str, ...]

    @property
    def place(self) -> str:
        """Its name in messages."""
        return f"{self.path} at {self.concurrency} ({self.group})"


@dataclass(frozen=True, slots=True)
class Both:
    """Both engines at once.

    Attributes:
        baseline, speculative: requests held in flight on each.
        baseline_rate, speculative_rate: aggregate output tokens per second of each.
        accept_length: of the speculative engine meanwhile; None: not known.
        drained: the path that got no new requests at the end.
        drain_seconds: how long it went on from then.
        problems: why the cell must not be used.
    """

    baseline: int
    speculative: int
    baseline_rate: float
    speculative_rate: float
    accept_length: float | None
    drained: Path | None
    drain_seconds: float | None
    problems: tuple[str, ...]

    @property
    def place(self) -> str:
        """Its name in messages."""
        return f"both at once, {self.baseline} on baseline and {self.speculative} on speculative"


@dataclass(frozen=True, slots=True)
class Routed:
    """The same load through the router.

    Attributes:
        success_rate: see `Alone`.
        speculative_share: share of the requests that the speculative engine served, 0 to 1.
    """

    concurrency: int
    group: str
    tokens_per_second: float
    success_rate: float
    speculative_share: float
    problems: tuple[str, ...]

    @property
    def place(self) -> str:
        """Its name in messages."""
        return f"through the router at {self.concurrency} ({self.group})"


@dataclass(frozen=True, slots=True)
class Measured:
    """A whole measurement.

    Attributes:
        key: what was measured.
        prefill_seconds_per_token: seconds of an uncached prompt token; a path that is not there was not
            looked at.
        max_running_requests: what each engine runs at a time; None: not known.
        started: UTC, ISO 8601.
        seconds: how long all of it took.
        command: by which it was made.
        notes: anything else that a reader should know.
    """

    key: Key
    alone: tuple[Alone, ...]
    both: tuple[Both, ...]
    routed: tuple[Routed, ...]
    prefill_seconds_per_token: Mapping[Path, float]
    max_running_requests: Mapping[Path, int | None]
    started: str
    seconds: float
    command: str
    notes: tuple[str, ...]

    def of(self, path: Path) -> tuple[Alone, ...]:
        """The visits to one engine."""
        return tuple(cell for cell in self.alone if cell.path is path)

    def concurrencies(self, path: Path) -> frozenset[int]:
        """Where one engine was measured alone."""
        return frozenset(cell.concurrency for cell in self.of(path))

    @property
    def groups(self) -> tuple[str, ...]:
        """What was asked, in the order in which it came."""
        return tuple(dict.fromkeys(cell.group for cell in self.alone))
