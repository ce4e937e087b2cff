"""Decisions in one sentence each, the same on the page, in the terminal and in logs."""

from __future__ import annotations

from router.core.policy import Policy, PolicyState, Switch, ThresholdPolicy
from router.core.words import SwitchReason

_SWITCHES = {
    SwitchReason.HIGH: "load rose to {n} in flight",
    SwitchReason.LOW: "load fell and stayed low ({n} in flight)",
    SwitchReason.FAILOVER: "the {origin} engine could not serve",
    SwitchReason.RECOVERED: "the {target} engine came back",
    SwitchReason.PIN: "an operator pinned {target}",
    SwitchReason.UNPIN: "an operator took the pin away",
    SwitchReason.DEGRADED: "speculation did more harm than good",
}


def why_switched(switch: Switch) -> str:
    """What made a switch."""
    text = _SWITCHES[switch.reason].format(n=switch.n, origin=switch.origin.value, target=switch.target.value)
    if switch.inputs:
        text += (
            f" (crossover {switch.inputs.crossover:.1f} at accept length {switch.inputs.accept_length:.2f}, "
            f"{switch.inputs.gain:+.0%} expected)"
        )
    return f"{text}, {switch.excess} of them not ours" if switch.excess else text


def why_active(policy: Policy, state: PolicyState, last: Switch | None, pin: str | None) -> str:
    """Why new requests go where they go.

    Args:
        policy, state: the pair's.
        last: the last switch; None if there was none.
        pin: the operator's reason while a pin holds.
    """
    path = state.active.value
    if policy.kind == "single":
        return f"New requests go to {path}: it is the only engine."
    if pin is not None:
        return f"New requests go to {path}: pinned by an operator ({pin})."
    if policy.kind == "pinned":
        return f"New requests go to {path}: the configuration pins it."
    if last is not None:
        return f"New requests go to {path}: {why_switched(last)}."
    if isinstance(policy, ThresholdPolicy):
        return f"New requests go to {path}: load has stayed below {policy.high} in flight since the start."
    return f"New requests go to {path} since the start."
