"""Greedy answers of both engines: the same, or apart at near-ties."""

from __future__ import annotations

from router.core.words import Path
from router.verify.ask import Target
from router.verify.compare import NEAR_TIE
from router.verify.prompts import BUILT_IN
from router.verify.run import compare_engines
from tests.contract.backends import Pair


async def test_speculation_changes_no_greedy_answer(pair: Pair) -> None:
    speculative, baseline = (Target(path, f"http://127.0.0.1:{pair.engine(path).port}") for path in Path)
    result = await compare_engines(
        speculative, baseline, BUILT_IN[:4], max_tokens=24, timeout=120.0, gap=NEAR_TIE
    )
    assert result.safe, result.rows
    assert [one.speculative for one in (result.speculative, result.baseline) if one] == [True, False]
    # Nothing was taken on trust: where the answers part, the engines named their candidates.
    assert all(row.divergence is None or row.divergence.gap is not None for row in result.rows)
    assert all(row.same > 0 for row in result.rows)
