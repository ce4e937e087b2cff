from __future__ import annotations

import pytest

from router.demo.plan import FALLBACK_HIGH, FALLBACK_LOW, make_plan, watermarks
from router.sim import PROFILE_NAMES, load_profile


@pytest.mark.parametrize(
    ("crossover", "expected"),
    [
        (10, (13, 5)),
        (13, (17, 6)),
        (8, (10, 4)),
        (2, (3, 1)),
        (1, (2, 1)),
        (None, (FALLBACK_HIGH, FALLBACK_LOW)),
    ],
)
def test_watermarks_follow_the_rule_of_thumb(crossover: int | None, expected: tuple[int, int]) -> None:
    assert watermarks(crossover) == expected


@pytest.mark.parametrize("crossover", range(1, 65))
def test_watermarks_suit_the_policy(crossover: int) -> None:
    high, low = watermarks(crossover)
    assert 0 < low < high
    assert high >= 1.25 * crossover
    assert low == 1 or low <= 0.5 * crossover


@pytest.mark.parametrize("name", PROFILE_NAMES)
def test_the_wave_crosses_both_watermarks(name: str) -> None:
    plan = make_plan(load_profile(name))
    assert plan.wave.trough <= plan.low < plan.high < plan.wave.peak
    assert plan.derived == (name != "seed")


def test_answers_take_about_as_long_with_fast_engines_as_with_slow_ones() -> None:
    strong, h200 = (make_plan(load_profile(name)) for name in ("strong", "h200"))
    assert h200.answer_tokens > 4 * strong.answer_tokens
