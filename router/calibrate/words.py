"""Numbers for people."""

from __future__ import annotations

import math

from router.bench.report import percent as rounded_down


def percent(value: float | None, digits: int = 0, *, sign: bool = False) -> str:
    """A share in percent, or a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{100 * value:{'+' if sign else ''}.{digits}f} %".replace("-", "\N{MINUS SIGN}")


def rate(value: float | None) -> str:
    """Tokens per second, with as many digits as are worth something, or a dash."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def number(value: float | None, digits: int = 2) -> str:
    """A number with so many digits after the point, or a dash."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def share(value: float) -> str:
    """A share in percent, rounded down so that 98.96 % does not read as 99 %."""
    return rounded_down(value) if math.isfinite(value) else "–"
