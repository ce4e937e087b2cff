"""The closed vocabulary: its values are label and header values, so a changed one breaks dashboards."""

from __future__ import annotations

from enum import StrEnum

import pytest

from router.core.words import (
    BreakerState,
    DecisionReason,
    Outcome,
    Path,
    Placement,
    Rejection,
    Sign,
    SwitchReason,
)

VALUES: list[tuple[type[StrEnum], str]] = [
    (Path, "speculative baseline"),
    (Placement, "shared separate single"),
    (Outcome, "ok failed cancelled rejected"),
    (DecisionReason, "policy pinned class header affinity failover probe retry single"),
    (SwitchReason, "high low failover recovered pin unpin degraded"),
    (Sign, "accept_length prefix_cache slow"),
    (Rejection, "auth size json route queue_full queue_timeout body_memory no_engine drain"),
    (BreakerState, "closed open half_open"),
]


@pytest.mark.parametrize(("words", "values"), VALUES, ids=lambda v: v.__name__ if isinstance(v, type) else "")
def test_the_vocabulary_is_closed(words: type[StrEnum], values: str) -> None:
    assert [word.value for word in words] == values.split()


def test_each_path_is_the_other_of_the_other() -> None:
    assert Path.SPECULATIVE.other is Path.BASELINE
    assert Path.BASELINE.other is Path.SPECULATIVE


@pytest.mark.parametrize(
    ("state", "code"), [(BreakerState.CLOSED, 0), (BreakerState.OPEN, 1), (BreakerState.HALF_OPEN, 2)]
)
def test_breaker_states_are_numbered_as_in_sglang_s_gateway(state: BreakerState, code: int) -> None:
    assert state.code == code
