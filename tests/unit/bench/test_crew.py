"""A load is split so that all processes together make it, and no two ask the same at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.bench.crew import part
from tests.unit.bench.build import load


@given(st.integers(1, 300), st.integers(1, 20))
def test_slots_add_up_and_differ_by_one_at_most(slots: int, size: int) -> None:
    parts = [part(load(slots), place, size) for place in range(size)]
    held = [one.slots for one in parts]
    assert sum(held) == slots
    assert max(held) - min(held) <= 1


@given(st.floats(0.01, 1e4), st.integers(1, 20))
def test_rates_add_up(rate: float, size: int) -> None:
    parts = [part(load(0, rate), place, size) for place in range(size)]
    assert sum(one.rate for one in parts) == pytest.approx(rate)
    assert len({one.seed for one in parts}) == size


@given(st.integers(1, 40), st.integers(1, 20))
def test_each_has_all_prompts_and_begins_elsewhere(count: int, size: int) -> None:
    prompts = [str(number) for number in range(count)]
    parts = [part(load(4, prompts=prompts), place, size) for place in range(size)]
    assert all(sorted(map(str, one.prompts)) == sorted(prompts) for one in parts)
    assert len({str(one.prompts[0]) for one in parts}) == min(size, count)
