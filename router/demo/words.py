"""Numbers and switches in words, the same on every sort of screen."""

from __future__ import annotations

from router.core.words import SwitchReason

NOTHING = "-"


def seconds_text(seconds: float | None) -> str:
    """A short time: `64 ms`, `1.25 s`."""
    if seconds is None:
        return NOTHING
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def rate_text(per_second: float | None) -> str:
    """Tokens per second."""
    return NOTHING if per_second is None else f"{per_second:.0f}"


def switch_text(origin: str, target: str, n: int, reason: str) -> str:
    """A switch in a line."""
    return f"{origin} → {target} at N = {n} ({reason})"


def why_text(reason: str | None, n: int, high: int, low: int) -> str:
    """Why the active path is the active one.

    Args:
        reason: of the last switch; None if there was none.
        n: of the last switch.
        high, low: the watermarks.
    """
    if reason is None:
        return f"N has been below high = {high} since the start"
    return {
        SwitchReason.HIGH: f"N reached {n}, high is {high}",
        SwitchReason.LOW: f"N fell to {n} and stayed, low is {low}",
        SwitchReason.FAILOVER: "the other engine could not serve",
        SwitchReason.RECOVERED: "its engine came back",
        SwitchReason.PIN: "it was pinned",
        SwitchReason.UNPIN: "the pin was taken away",
    }.get(SwitchReason(reason), reason)
