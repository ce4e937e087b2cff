"""A clock that stands still until it is told to move."""

from __future__ import annotations


class FakeClock:
    """Monotonic seconds under the test's control.

    Steps that are multiples of a power of two (1/8, 0.5, 3) keep sums exact, so tests can compare with `==`.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> float:
        """Let `seconds` pass; returns the new time."""
        if seconds < 0:
            raise ValueError(f"a monotonic clock does not go back, not even {seconds} s")
        self.now += seconds
        return self.now
