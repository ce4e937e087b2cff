"""Why no thresholds may be derived from a measurement."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from router.bench.figures import LEAST_SUCCESS
from router.calibrate.measured import Alone, Both, Measured
from router.calibrate.words import percent, share
from router.core.words import Path, Placement

LEAST_IN_COMMON = 3
# Speculation pays at low load or nowhere; a sweep that begins above says nothing about it.
LOWEST = 2


def refusals(measured: Measured) -> tuple[str, ...]:
    """Reasons, each a sentence with what to do about it; empty if thresholds may be derived."""
    return (
        *_coverage(measured),
        *_of_engines(measured),
        *(reason for cell in measured.alone for reason in _of_cell(cell)),
        *(reason for both in measured.both for reason in _of_both(both)),
    )


def warnings(measured: Measured) -> tuple[str, ...]:
    """What a reader should know though it forbids nothing."""
    return (*_of_routed(measured), *_of_groups(measured))


def _coverage(measured: Measured) -> Iterator[str]:
    if measured.key.placement not in (Placement.SHARED, Placement.SEPARATE):
        yield f"the placement is {measured.key.placement or 'not known'}: it must be shared or separate"
    missing = [path for path in Path if not measured.of(path)]
    for path in missing:
        yield f"the {path} engine was not measured: measure both engines, one after the other"
    if missing:
        return
    common = sorted(measured.concurrencies(Path.SPECULATIVE) & measured.concurrencies(Path.BASELINE))
    named = ", ".join(map(str, common)) or "none"
    if len(common) < LEAST_IN_COMMON:
        yield (
            f"both engines were measured at too few concurrencies in common ({named}): "
            f"measure both at {LEAST_IN_COMMON} or more, best at 1, 2, 4, 8 and so on"
        )
    if common and common[0] > LOWEST:
        yield (
            f"both engines were measured from {common[0]} requests in flight on ({named}): "
            f"measure both at 1 or {LOWEST} too, for there speculation gains most"
        )


def _of_engines(measured: Measured) -> Iterator[str]:
    for path in Path:
        prefill = measured.prefill_seconds_per_token.get(path)
        most = measured.max_running_requests.get(path)
        if not _possible(prefill):
            yield f"{path}: {prefill:g} seconds for a prompt token cannot be: measure the prefill again"
        if most is not None and most < 1:
            yield f"{path}: {most} running requests at most cannot be: see the engine's /server_info"


def _of_cell(cell: Alone) -> Iterator[str]:
    yield from _problems(cell.place, cell.problems)
    yield from _success(cell)
    if not _positive(cell.tokens_per_second) or cell.concurrency < 1:
        yield (
            f"{cell.place}: {cell.tokens_per_second:g} tokens per second at {cell.concurrency} requests are "
            "no measurement: look at the engine's log, then measure again"
        )
    numbers = (cell.prompt_tokens, cell.cached_tokens, cell.output_tokens, cell.spread, cell.drain_seconds)
    if not all(map(_possible, numbers)):
        yield f"{cell.place}: its token counts, its spread or its drain are missing: measure it again"
    if cell.path is not Path.SPECULATIVE:
        return
    if cell.accept_length is None:
        yield (
            f"{cell.place}: the engine reported no accept length: start it with --enable-metrics, and check "
            "that it runs with --speculative-algorithm"
        )
    elif not (math.isfinite(cell.accept_length) and cell.accept_length >= 1):
        yield (
            f"{cell.place}: an accept length of {cell.accept_length:g} cannot be, for it is 1 or more: "
            "measure it again"
        )


def _success(cell: Alone) -> Iterator[str]:
    if cell.success_rate >= LEAST_SUCCESS:
        return
    counted = Counter(dict(cell.failures)).most_common()
    reasons = ", ".join(f"{reason}: {count}" for reason, count in counted) or "no reason known"
    yield (
        f"{cell.place}: only {share(cell.success_rate)} of the requests succeeded ({reasons}), and "
        f"{percent(LEAST_SUCCESS)} must, for a throughput with failures in it is none: mend their cause, or "
        "measure up to a lower concurrency"
    )


def _of_both(both: Both) -> Iterator[str]:
    yield from _problems(both.place, both.problems)
    if both.accept_length is not None and not both.accept_length >= 1:
        yield f"{both.place}: an accept length of {both.accept_length:g} cannot be: measure it again"
    if not _possible(both.drain_seconds):
        yield f"{both.place}: a drain of {both.drain_seconds:g} seconds cannot be: measure it again"
    if min(both.baseline, both.speculative) < 1 or not (
        _positive(both.baseline_rate) and _positive(both.speculative_rate)
    ):
        yield (
            f"{both.place}: {both.baseline_rate:g} and {both.speculative_rate:g} tokens per second are no "
            "measurement of two working engines: measure it again"
        )


def _of_routed(measured: Measured) -> Iterator[str]:
    for routed in measured.routed:
        if not routed.success_rate >= LEAST_SUCCESS:
            yield f"{routed.place}: only {share(routed.success_rate)} of the requests succeeded"
        for problem in routed.problems:
            yield f"{routed.place}: {problem}"


def _of_groups(measured: Measured) -> Iterator[str]:
    """A curve of mixed groups is only smooth if each was measured everywhere, on both engines."""
    seen = {(cell.path, cell.concurrency, cell.group) for cell in measured.alone}
    for group in measured.groups:
        places = [
            f"{path} at {n}"
            for path in Path
            for n in sorted(measured.concurrencies(path))
            if (path, n, group) not in seen
        ]
        if places:
            yield (
                f"group {group} was not measured on {', '.join(places)}: where groups differ in more than "
                "their accept length the curves are bent there"
            )


def _problems(place: str, problems: tuple[str, ...]) -> Iterator[str]:
    for problem in problems:
        yield f"{place} must not be used, {problem}: remove the cause, then measure again"


def _possible(value: float | None) -> bool:
    """Whether it is not known, or a number of at least 0."""
    return value is None or (math.isfinite(value) and value >= 0)


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0
