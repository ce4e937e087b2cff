"""The tables of what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from router.bench.figures import LEAST_SUCCESS
from router.calibrate.derive import Derived
from router.calibrate.measured import Alone, Measured
from router.calibrate.sheet import Sheet
from router.calibrate.words import number, percent, rate, share
from router.config.errors import printable
from router.core.calibration import quantile
from router.core.words import Path


def cells(measured: Measured) -> Sheet:
    """Each engine alone, with the success rate beside every figure."""
    order = sorted(measured.alone, key=lambda cell: (cell.path, cell.group, cell.concurrency))
    return Sheet(
        "Every visit, each engine alone",
        (
            "engine",
            "group",
            "in flight",
            "tok/s",
            "succeeded",
            "±",
            "accept length",
            "TTFT ms",
            "TPOT ms",
            "prompt / cached / output",
            "problems and failures",
        ),
        tuple(_visit(cell) for cell in order),
        texts=2,
        note="±: half-width of the 90 % interval in the window. Times: medians. Prompt to output: tokens.",
        marked=frozenset(
            place
            for place, cell in enumerate(order)
            if cell.problems or not cell.success_rate >= LEAST_SUCCESS
        ),
    )


def _visit(cell: Alone) -> tuple[str, ...]:
    failures = tuple(f"{reason}: {count}" for reason, count in cell.failures.items())
    return (
        cell.path.value,
        printable(cell.group),
        str(cell.concurrency),
        rate(cell.tokens_per_second),
        share(cell.success_rate),
        percent(cell.spread, 1),
        number(cell.accept_length),
        number(_milliseconds(cell.ttft_p50), 1),
        number(_milliseconds(cell.tpot_p50)),
        " / ".join(
            number(count, 0) for count in (cell.prompt_tokens, cell.cached_tokens, cell.output_tokens)
        ),
        listed((*cell.problems, *failures)),
    )


def both(measured: Measured) -> Sheet:
    """Both engines at once, as measured."""
    return Sheet(
        "Every visit, both at once",
        (
            "baseline",
            "speculative",
            "baseline tok/s",
            "speculative tok/s",
            "accept length",
            "drained",
            "in s",
            "problems",
        ),
        tuple(
            (
                str(each.baseline),
                str(each.speculative),
                rate(each.baseline_rate),
                rate(each.speculative_rate),
                number(each.accept_length),
                each.drained.value if each.drained else "–",
                number(each.drain_seconds, 1),
                listed(each.problems),
            )
            for each in measured.both
        ),
        texts=0,
    )


def drains(measured: Measured, derived: Derived | None) -> Sheet:
    """How long engines went on without new requests."""
    rows = []
    for path in Path:
        together = [each.drain_seconds for each in measured.both if each.drained is path]
        for what, seen in (
            ("while the other one worked", together),
            ("alone", [each.drain_seconds for each in measured.of(path)]),
        ):
            found = [seconds for seconds in seen if seconds is not None]
            if found:
                row = (
                    path.value,
                    what,
                    str(len(found)),
                    *(number(quantile(found, q), 1) for q in (0.5, 0.9, 1.0)),
                )
                rows.append(row)
    dwell = f" The dwell is {derived.calibration.dwell():.3g} s." if derived else ""
    return Sheet(
        "Drains",
        ("engine", "how", "visits", "median s", "p90 s", "longest s"),
        tuple(rows),
        texts=2,
        note=f"From the last new request to the last end.{dwell}",
    )


def key(measured: Measured) -> Sheet:
    """What a calibration holds for, and how it was made."""
    made_for = measured.key
    rows = [
        ("model", made_for.model),
        ("draft model", made_for.draft),
        ("SGLang", made_for.engine),
        ("hash of the flags", made_for.flags),
        ("placement", made_for.placement),
        *((f"{path}: runs at a time", measured.max_running_requests.get(path)) for path in Path),
        *((f"{path}: prefill of a token, µs", _microseconds(measured, path)) for path in Path),
        ("groups", ", ".join(measured.groups)),
        ("started", measured.started),
        ("took", f"{measured.seconds / 60:.0f} min"),
        ("command", measured.command),
        *(("note", note) for note in measured.notes),
    ]
    return Sheet(
        "What was measured, and how",
        ("", ""),
        tuple((name, "not known" if value is None else printable(str(value))) for name, value in rows),
        texts=2,
    )


def _microseconds(measured: Measured, path: Path) -> str | None:
    seconds = measured.prefill_seconds_per_token.get(path)
    return None if seconds is None else f"{1e6 * seconds:.3g}"


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def listed(texts: Sequence[str]) -> str:
    """Several texts in one cell."""
    return printable("; ".join(texts))
