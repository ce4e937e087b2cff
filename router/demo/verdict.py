"""What a profile's speed model says about speculation: where it wins, if anywhere."""

from __future__ import annotations

from dataclasses import dataclass

from router.sim.speed import Profile

# Concurrencies that are compared. Demonstrating a crossover beyond it would need more users than one
# small machine can play.
LIMIT = 64
# Interpolated curves that meet at a point differ there by rounding.
TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Comparison:
    """Steady throughput with speculation as a multiple of that without.

    Attributes:
        profile: its name.
        gains: the multiple at concurrency 1, 2, …; prefill is left out.
    """

    profile: str
    gains: tuple[float, ...]

    @property
    def winning(self) -> tuple[int, ...]:
        """Concurrencies at which speculation is faster."""
        return tuple(n for n, gain in enumerate(self.gains, 1) if gain > 1 + TIE)

    @property
    def losing(self) -> tuple[int, ...]:
        """Concurrencies at which the baseline is faster."""
        return tuple(n for n, gain in enumerate(self.gains, 1) if gain < 1 - TIE)

    @property
    def crossover(self) -> int | None:
        """N*: the largest concurrency at which speculation ties or wins; None unless it loses above one."""
        if not self.winning or len(self.gains) not in self.losing:
            return None
        return max(n for n, gain in enumerate(self.gains, 1) if gain >= 1 - TIE)

    def sentence(self) -> str:
        """The verdict, for people."""
        last = len(self.gains)
        ends = f"{self.gains[0]:.2f} times the baseline's throughput at N = 1, {self.gains[-1]:.2f} at {last}"
        if not self.winning:
            return f"speculation never wins with profile {self.profile} ({ends}): use the baseline alone"
        crossover = self.crossover
        if crossover is None:
            where = f"at every N up to {last}" if not self.losing else f"still at N = {last}"
            return (
                f"speculation wins {where} with profile {self.profile} ({ends}): no load here needs a switch"
            )
        lowest = self.winning[0]
        begin = "" if lowest == 1 else f"from N = {lowest} "
        return f"speculation wins {begin}up to N* = {crossover} with profile {self.profile} ({ends})"


def compare(profile: Profile, limit: int = LIMIT) -> Comparison:
    """Compare both engines at concurrency 1 to `limit`, or to what both run at once."""
    speculative, baseline = profile.speculative, profile.baseline
    last = min(limit, speculative.max_running_requests, baseline.max_running_requests)
    return Comparison(
        profile.name,
        tuple(speculative.tokens_per_second(n) / baseline.tokens_per_second(n) for n in range(1, last + 1)),
    )
