"""The calibrated policy for engines that share nothing: overflow is right there.

The next request goes where it adds most to the throughput, at the load that each engine has by itself:
T(n + 1) - T(n). The active path is the one that a lone request would take; a request that goes elsewhere
is overflow and no switch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from router.core.calibrated import CalibratedPolicy
from router.core.learned import Learned, learn
from router.core.policy import PolicyState, Snapshot, Switch, observe_n, settle
from router.core.price import gain
from router.core.words import Path, SwitchReason

# By how much a lone request must be better off for the active path to change.
LEAST_ADVANTAGE = 0.05


@dataclass(frozen=True, slots=True)
class MarginalPolicy:
    """See the module. `rules` brings the calibration and the way in which the accept length ages."""

    rules: CalibratedPolicy

    @property
    def kind(self) -> str:
        """See `Policy.kind`."""
        return self.rules.kind

    @property
    def first_path(self) -> Path:
        """See `Policy.first_path`."""
        return self.rules.first_path

    def step(self, state: PolicyState, seen: Snapshot) -> tuple[PolicyState, Switch | None]:
        """See `Policy.step`."""
        state = observe_n(state, seen, self.rules.smoothing)
        before = state.learned or Learned(regime_since=seen.now)
        learned = learn(
            before, seen.live, seen.now, self.rules.calibration, settled_at=0.0, excess=seen.excess
        )
        learned = self.rules.marked(learned, seen.now)
        dwelt = state.switched_at is None or seen.now - state.switched_at >= self.rules.dwell
        advantage = gain(
            state.regime.other, learned.effective, self.rules.tariff.hurdle(1, learned.effective, learned.mix)
        )
        if advantage > LEAST_ADVANTAGE and dwelt:
            state = replace(state, regime=state.regime.other)
        reason = SwitchReason.HIGH if state.regime is Path.BASELINE else SwitchReason.LOW
        state, switch = settle(replace(state, learned=learned), seen, dwelt=dwelt, reason=reason)
        return replace(state, overflow=self._overflow(state, seen, learned)), switch

    def _overflow(self, state: PolicyState, seen: Snapshot, learned: Learned) -> Path | None:
        """The other path, if the next request adds more there."""
        other = state.active.other
        if seen.pin or state.detour or other not in seen.eligible:
            return None
        here, there = (self._marginal(path, seen, learned) for path in (state.active, other))
        return other if there > here else None

    def _marginal(self, path: Path, seen: Snapshot, learned: Learned) -> float:
        """What one more request on the path adds to its throughput, in calibrated tokens per second."""
        active = seen.live.of(path).active
        limit = self.rules.calibration.path(path).max_running_requests
        if limit is not None and active >= limit:
            return 0.0
        rate = self.rules.calibration.tokens_per_second
        mix = learned.mix
        return rate(path, active + 1, learned.effective, mix) - rate(path, active, learned.effective, mix)
