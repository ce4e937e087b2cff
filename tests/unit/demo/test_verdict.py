from __future__ import annotations

import pytest

from router.demo.verdict import compare
from router.sim import load_profile
from tests.unit.demo.build import profile


def test_strong_has_its_crossover_where_the_engines_tie() -> None:
    comparison = compare(load_profile("strong"))
    assert comparison.crossover == 10
    assert comparison.gains[0] == pytest.approx(2.0)
    assert comparison.winning == tuple(range(1, 10))
    assert "speculation wins up to N* = 10 with profile strong (2.00 times" in comparison.sentence()


def test_seed_never_wins_and_the_sentence_says_so() -> None:
    comparison = compare(load_profile("seed"))
    assert comparison.crossover is None
    assert not comparison.winning
    assert max(comparison.gains) < 1
    assert comparison.sentence().startswith("speculation never wins with profile seed (0.84 times")


def test_engines_of_one_speed_win_nothing() -> None:
    comparison = compare(profile({1: 0.02}, {1: 0.01}))
    assert comparison.winning == comparison.losing == ()
    assert comparison.sentence().startswith("speculation never wins")


def test_speculation_that_always_wins_has_no_crossover() -> None:
    comparison = compare(profile({1: 0.01}, {1: 0.01}))
    assert comparison.crossover is None
    assert "wins at every N up to 64" in comparison.sentence()


def test_speculation_may_win_only_in_the_middle() -> None:
    comparison = compare(profile({1: 0.03, 8: 0.01, 32: 0.051}, {1: 0.01}))
    assert comparison.winning[0] > 1
    assert comparison.crossover == comparison.winning[-1]
    assert f"wins from N = {comparison.winning[0]} up to N* = {comparison.crossover}" in comparison.sentence()


def test_speculation_that_wins_from_some_n_on_has_no_crossover() -> None:
    comparison = compare(profile({1: 0.03, 8: 0.01}, {1: 0.01}))
    assert comparison.crossover is None
    assert "wins still at N = 64" in comparison.sentence()


def test_nothing_is_said_of_more_than_the_engines_run_at_once() -> None:
    assert len(compare(profile({1: 0.01}, {1: 0.01}, limit=4)).gains) == 4
