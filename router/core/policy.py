"""Policies: which path new requests should take, decided from numbers alone.

A policy is a pure function. It gets the state it returned last time and a snapshot of the pair, and
returns the next state; time is a field of the snapshot. Replaying recorded snapshots through
`step` therefore reproduces every switch.

Two questions are kept apart:

* the **regime**: what load asks for. `ThresholdPolicy` answers it with two watermarks; a smoothed N,
  because closed-loop N falls by itself once the faster engine works a queue off, and a dwell, so that
  a load which hovers at a watermark cannot make the pair flap;
* the **target**: what may be used. A pin overrides the regime, an engine that cannot serve overrides both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from router.core.learned import Learned
from router.core.live import NOTHING, Live
from router.core.words import Path, SwitchReason


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a policy may know of a pair at one moment.

    Attributes:
        now: monotonic seconds.
        n: requests in flight on both paths and in the queue, and the excess.
        eligible: paths whose engine may get new requests.
        pin: the path an operator pinned, if any.
        excess: the part of `n` that holds no lease of ours: other clients, ghosts.
        live: what is measured of both paths.
        degraded: speculation does harm; see `router.core.degraded`.
    """

    now: float
    n: int
    eligible: frozenset[Path]
    pin: Path | None = None
    excess: int = 0
    live: Live = NOTHING
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class PolicyState:
    """What a policy remembers between two snapshots.

    Attributes:
        active: where new requests go.
        regime: what the load alone asks for.
        switched_at: time of the last switch; None before the first.
        smoothed_n: exponentially smoothed N.
        last_n: N of the last snapshot, which held until the next one.
        seen_at: time of the last snapshot; None before the first.
        detour: why the active path is not the regime's: `failover`, `pin`, `degraded`, or None.
        overflow: where the next request goes instead of the active path; on GPUs of their own only.
        learned: what a policy that learns has learned.
    """

    active: Path = Path.SPECULATIVE
    regime: Path = Path.SPECULATIVE
    switched_at: float | None = None
    smoothed_n: float = 0.0
    last_n: int = 0
    seen_at: float | None = None
    detour: SwitchReason | None = None
    overflow: Path | None = None
    learned: Learned | None = None


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a calibrated policy decided a switch with.

    Attributes:
        policy: name and version of the rules.
        rule: `band`, `regret` or `marginal`.
        accept_length: tokens per cycle that it reckoned with.
        accept_length_age: seconds since one was measured; None if never.
        scale_speculative, scale_baseline: how many times slower than calibrated the engines are.
        crossover, high, low: N* and the watermarks; see `Band`.
        gain: relative gain in throughput of the new path at the load of now.
        forecast: the same at the load that is expected.
        stay: seconds for which load is expected to want it.
        price, drain: seconds of work that the switch costs, and seconds that the old path drains.
        regret: seconds of work that staying had cost so far, to the usual number of requests.
    """

    policy: str
    rule: str
    accept_length: float
    accept_length_age: float | None
    scale_speculative: float
    scale_baseline: float
    crossover: float
    high: float | None
    low: float | None
    gain: float
    forecast: float
    stay: float
    price: float
    drain: float
    regret: float


@dataclass(frozen=True, slots=True)
class Switch:
    """A change of the active path, with the inputs that made it; `excess` is part of `n`.

    `inputs` is None where numbers of load alone, an operator or an engine's health decided.
    """

    at: float
    origin: Path
    target: Path
    n: int
    smoothed_n: float
    reason: SwitchReason
    excess: int = 0
    inputs: Inputs | None = None


class Policy(Protocol):
    """Decides the active path of a pair."""

    @property
    def kind(self) -> str:
        """Name in the configuration."""
        ...

    @property
    def first_path(self) -> Path:
        """The active path of a pair that has seen nothing yet."""
        ...

    def step(self, state: PolicyState, seen: Snapshot) -> tuple[PolicyState, Switch | None]:
        """The state after `seen`, and the switch it made, if any."""
        ...


@dataclass(frozen=True, slots=True)
class ThresholdPolicy:
    """Up at once when N ≥ high; down when the smoothed N ≤ low and the dwell has passed.

    Attributes:
        high: N at or above which new requests go to baseline.
        low: smoothed N at or below which they come back; 0 < low < high.
        dwell: least seconds between a switch and the next one down.
        smoothing: time constant in seconds of the smoothing of N; 0 turns it off.
    """

    high: int
    low: int
    dwell: float
    smoothing: float

    @property
    def kind(self) -> str:
        """See `Policy.kind`."""
        return "threshold"

    @property
    def first_path(self) -> Path:
        """An idle pair is below every low watermark."""
        return Path.SPECULATIVE

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high:
            raise ValueError(f"0 < low < high is required, not low={self.low}, high={self.high}")
        if self.dwell < 0 or self.smoothing < 0:
            raise ValueError("dwell and smoothing must not be negative")

    def step(self, state: PolicyState, seen: Snapshot) -> tuple[PolicyState, Switch | None]:
        """See `Policy.step`."""
        state = observe_n(state, seen, self.smoothing)
        dwelt = state.switched_at is None or seen.now - state.switched_at >= self.dwell
        wanted = state.regime
        if seen.n >= self.high:
            wanted = Path.BASELINE
        elif state.smoothed_n <= self.low and seen.n <= self.low and dwelt:
            wanted = Path.SPECULATIVE
        if wanted is not state.regime:
            state = replace(state, regime=wanted)
        reason = SwitchReason.HIGH if state.regime is Path.BASELINE else SwitchReason.LOW
        return settle(state, seen, dwelt=dwelt, reason=reason)


@dataclass(frozen=True, slots=True)
class FixedPolicy:
    """Always the same path: `policy.kind: pinned`, and a pair with one engine."""

    path: Path
    kind: str
    dwell: float = 0.0

    @property
    def first_path(self) -> Path:
        """See `Policy.first_path`."""
        return self.path

    def step(self, state: PolicyState, seen: Snapshot) -> tuple[PolicyState, Switch | None]:
        """See `Policy.step`."""
        state = observe_n(state, seen, 0.0)
        if state.regime is not self.path:
            state = replace(state, regime=self.path)
        dwelt = state.switched_at is None or seen.now - state.switched_at >= self.dwell
        return settle(state, seen, dwelt=dwelt, reason=SwitchReason.PIN)


def observe_n(
    state: PolicyState, seen: Snapshot, smoothing: float, learned: Learned | None = None
) -> PolicyState:
    """Fold the N of the time since the last snapshot into the smoothed N; put down what was learned from it.

    N is a step function of time, so the smoothing is exact whatever the spacing of snapshots:
    s ← n + (s − n)·exp(−Δt/τ), with the n that held during Δt.
    """
    if smoothing == 0.0:
        smoothed = float(seen.n)
    elif state.seen_at is None:
        smoothed = 0.0
    else:
        elapsed = max(0.0, seen.now - state.seen_at)
        smoothed = state.last_n + (state.smoothed_n - state.last_n) * math.exp(-elapsed / smoothing)
    # Made at every request, and by name `replace` takes three times as long.
    return PolicyState(
        state.active,
        state.regime,
        state.switched_at,
        smoothed,
        seen.n,
        seen.now,
        state.detour,
        state.overflow,
        learned or state.learned,
    )


def settle(
    state: PolicyState,
    seen: Snapshot,
    *,
    dwelt: bool,
    reason: SwitchReason,
    inputs: Inputs | None = None,
) -> tuple[PolicyState, Switch | None]:
    """Turn the regime into the active path: pins first, then what can serve at all.

    Leaving an engine that cannot serve is immediate, and so is leaving speculation that does harm. Coming
    back to one that has recovered waits for the dwell, so an engine that comes and goes costs at most one
    return per dwell.
    """
    if not seen.eligible:
        return state, None
    wanted, detour = _wanted(state, seen)
    if wanted is state.active:
        return (state if detour is state.detour else replace(state, detour=detour)), None
    if detour is not None:
        reason, inputs = detour, None
    elif state.detour in (SwitchReason.FAILOVER, SwitchReason.DEGRADED):
        if state.active in seen.eligible and not dwelt:
            return state, None
        reason, inputs = SwitchReason.RECOVERED, None
    elif state.detour is SwitchReason.PIN:
        reason, inputs = SwitchReason.UNPIN, None
    switch = Switch(seen.now, state.active, wanted, seen.n, state.smoothed_n, reason, seen.excess, inputs)
    return replace(state, active=wanted, switched_at=seen.now, detour=detour), switch


def _wanted(state: PolicyState, seen: Snapshot) -> tuple[Path, SwitchReason | None]:
    """The path to use, and why it is not the regime's."""
    wanted, detour = seen.pin or state.regime, SwitchReason.PIN if seen.pin else None
    if seen.degraded and not seen.pin and wanted is Path.SPECULATIVE:
        wanted, detour = Path.BASELINE, SwitchReason.DEGRADED
    if wanted not in seen.eligible:
        wanted, detour = wanted.other, SwitchReason.FAILOVER
    return wanted, detour
