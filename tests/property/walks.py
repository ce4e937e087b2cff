"""Strategies for what policies see: a load that wanders, engines that come and go, operators who pin."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from router.core.policy import Policy, PolicyState, Snapshot, Switch, ThresholdPolicy
from router.core.words import Path, SwitchReason

BOTH = frozenset(Path)

paths = st.sampled_from(Path)
# Eighths of a second are exact in floating point, so sums of them are too.
gaps = st.one_of(st.integers(0, 16), st.integers(0, 400)).map(lambda eighths: eighths / 8)
loads = st.one_of(st.integers(0, 12), st.integers(0, 60))
eligibilities = st.sampled_from([BOTH, BOTH, BOTH, *[frozenset({path}) for path in Path], frozenset[Path]()])
pins = st.sampled_from([None, None, None, *Path])


@st.composite
def policies(draw: st.DrawFn, dwells: tuple[float, ...] = (0.0, 0.5, 2.0, 10.0)) -> ThresholdPolicy:
    low = draw(st.integers(1, 8))
    high = low + draw(st.integers(1, 8))
    return ThresholdPolicy(
        high, low, draw(st.sampled_from(dwells)), draw(st.sampled_from([0.0, 0.25, 2.0, 8.0]))
    )


@st.composite
def states(draw: st.DrawFn) -> PolicyState:
    """Any state without a detour: active where the load asked, with any past."""
    active, last_n = draw(paths), draw(loads)
    return PolicyState(
        active=active,
        regime=active,
        switched_at=draw(st.one_of(st.none(), gaps.map(lambda gap: -gap))),
        smoothed_n=draw(st.one_of(st.just(float(last_n)), st.floats(0, 60))),
        last_n=last_n,
        seen_at=draw(st.one_of(st.none(), gaps.map(lambda gap: -gap))),
    )


@st.composite
def walks(draw: st.DrawFn, *, steady: bool = False) -> list[Snapshot]:
    """Snapshots from time 0 on. `steady`: both engines can serve all the time and nobody pins."""
    changes = st.tuples(
        gaps, loads, st.just(BOTH) if steady else eligibilities, st.none() if steady else pins
    )
    now, seen = 0.0, []
    for gap, n, eligible, pin in draw(st.lists(changes, min_size=1, max_size=60)):
        now += gap
        seen.append(Snapshot(now, n, eligible, pin))
    return seen


def walk(
    policy: Policy, state: PolicyState, seen: list[Snapshot]
) -> list[tuple[PolicyState, Snapshot, PolicyState, Switch | None]]:
    """Each step: the state before, what was seen, the state after, the switch."""
    steps = []
    for each in seen:
        after, switch = policy.step(state, each)
        steps.append((state, each, after, switch))
        state = after
    return steps


def switches_of(policy: Policy, state: PolicyState, seen: list[Snapshot]) -> list[Switch]:
    return [switch for *_, switch in walk(policy, state, seen) if switch]


def by_reason(switches: list[Switch], *reasons: SwitchReason) -> list[Switch]:
    return [switch for switch in switches if switch.reason in reasons]


class Recorder:
    """A policy that keeps the snapshots it was shown."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.kind = policy.kind
        self.first_path = policy.first_path
        self.seen: list[Snapshot] = []

    def step(self, state: PolicyState, seen: Snapshot) -> tuple[PolicyState, Switch | None]:
        self.seen.append(seen)
        return self.policy.step(state, seen)


def multiplied(factor: int) -> int:
    """So many times the examples of the profile in force."""
    assert settings.default is not None
    return factor * settings.default.max_examples
