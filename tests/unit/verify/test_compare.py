"""Comparing two greedy answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.identity import Identity
from router.verify.ask import read_answer
from router.verify.compare import Answer, Candidate, Divergence, compare, safe
from router.verify.report import as_json, as_table, doubts, verdict
from router.verify.run import Result


def answer(*tokens: int, top: dict[int, dict[int, float]] | None = None) -> Answer:
    """An answer whose candidates are known at some places."""
    rows = tuple(
        {token: Candidate(token, value, f"t{token}") for token, value in (top or {}).get(at, {}).items()}
        for at in range(len(tokens))
    )
    return Answer(tokens, rows if top else ())


def parted(speculative: Answer, baseline: Answer) -> Divergence:
    found = compare("p", speculative, baseline).divergence
    assert found is not None
    return found


def test_the_same_tokens_are_no_divergence() -> None:
    row = compare("p", answer(1, 2, 3), answer(1, 2, 3))
    assert (row.same, row.divergence) == (3, None)
    assert safe([row], 0.0)


def test_the_gap_is_the_baselines_between_its_own_token_and_the_other() -> None:
    found = parted(answer(1, 9, 3), answer(1, 2, 3, top={1: {2: -0.5, 9: -0.75, 4: -3.0}}))
    assert found == Divergence(1, 9, 2, "t9", "t2", 0.25, False)
    assert (found.near_tie(0.25), found.near_tie(0.2)) == (True, False)


def test_a_token_that_is_no_candidate_is_at_least_as_far_as_the_last_one() -> None:
    found = parted(answer(9), answer(2, top={0: {2: -0.5, 4: -0.53}}))
    assert (found.gap, found.at_least) == (pytest.approx(0.03), True)
    assert found.near_tie(1.0) is False, "how far is not known"


def test_without_candidates_nothing_is_known() -> None:
    found = parted(answer(9), answer(2))
    assert (found.gap, found.at_least, found.near_tie(100.0)) == (None, False, False)
    assert parted(answer(9), answer(2, top={0: {4: -1.0}})).gap is None


def test_an_answer_that_ends_before_the_other_parts_there() -> None:
    assert parted(answer(1), answer(1, 2, top={1: {2: -0.5}})).speculative is None
    found = parted(answer(1, 2), answer(1))
    assert (found.index, found.speculative, found.baseline, found.gap) == (1, 2, None, None)


tokens = st.lists(st.integers(0, 3), max_size=6).map(tuple)


@given(tokens, tokens)
def test_what_comes_before_the_divergence_is_the_same(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    row = compare("p", Answer(one), Answer(other))
    assert one[: row.same] == other[: row.same]
    assert (row.divergence is None) is (one == other)
    if row.divergence is not None:
        assert row.divergence.index == row.same
        assert row.divergence.speculative != row.divergence.baseline


def test_an_answer_of_the_engine_is_read() -> None:
    said: dict[str, Any] = {
        "text": "x",
        "output_ids": [5, 6],
        "meta_info": {"output_top_logprobs": [[[-0.5, 5, "a"], [float("nan"), 7, ""], [-2, 8, None]], None]},
    }
    found = read_answer(said)
    assert found.tokens == (5, 6)
    assert found.top == ({5: Candidate(5, -0.5, "a"), 8: Candidate(8, -2.0, None)}, {})
    del said["meta_info"]["output_top_logprobs"]
    assert read_answer(said) == Answer((5, 6))


def result(*rows: tuple[Answer, Answer], **engines: Identity) -> Result:
    compared = tuple(compare("a\n[bold]prompt[/bold] that is quite long, and longer", *row) for row in rows)
    return Result(compared, engines.get("speculative"), engines.get("baseline"), 0.1)


NEAR = (answer(9), answer(2, top={0: {2: -0.5, 9: -0.55}}))
FAR = (answer(9), answer(2, top={0: {2: -0.5, 9: -2.0}}))
SAME = (answer(1), answer(1))


def test_the_verdict_says_why() -> None:
    assert verdict(result(SAME, SAME)) == "Safe: all 2 greedy answers are identical."
    assert verdict(result(SAME, NEAR)).startswith(
        "Safe: 1 of 2 greedy answers are identical, and 1 part at near"
    )
    assert verdict(result(SAME, NEAR, FAR)).startswith(
        "Unsafe: 1 of 3 greedy answers part where the baseline"
    )
    assert as_json(result(FAR))["rows"][0]["divergence"]["near_tie"] is False


def test_a_prompt_is_one_line_and_no_markup() -> None:
    table = as_table(result(NEAR, (answer(1), answer())))
    first, *_ = table.columns[0].cells
    assert str(first) == "a\\n[bold]prompt[/bold] that is qu…"
    assert [str(cell) for cell in table.columns[4].cells] == ["t2 #2", "end"]
    assert [str(cell) for cell in table.columns[5].cells] == ["0.0500", "unknown"]


def test_what_may_be_wrong_with_the_comparison() -> None:
    right = result(SAME, speculative=Identity(True, model="m"), baseline=Identity(False, model="m"))
    assert doubts(right) == doubts(result(SAME)) == []
    wrong = result(SAME, speculative=Identity(False, model="m"), baseline=Identity(True, model="n"))
    assert len(doubts(wrong)) == 3
