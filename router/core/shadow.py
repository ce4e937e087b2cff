"""A second policy that looks on: it decides as if it had a say, and only its switches are told.

It sees the load that the policy in force brings about, not the one that it would have brought about
itself; `spec-router replay` answers that question.
"""

from __future__ import annotations

from collections.abc import Callable

from router.core.policy import Policy, PolicyState, Snapshot, Switch


class Shadow:
    """Shows a policy what the pair sees.

    Args:
        policy: the one that is tried.
        on_switch: told of the switches that it would have made.
    """

    def __init__(self, policy: Policy, on_switch: Callable[[Switch], None]) -> None:
        self.policy = policy
        self.state = PolicyState(active=policy.first_path, regime=policy.first_path)
        self._on_switch = on_switch

    def look(self, seen: Snapshot) -> None:
        """One snapshot of the pair. A pin is an operator's will and says nothing of the policy."""
        self.state, switch = self.policy.step(self.state, seen)
        if switch:
            self._on_switch(switch)
