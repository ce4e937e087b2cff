"""Comparing two greedy answers token by token, and what follows for a switch. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Speculation verifies several tokens in one pass, with other kernels than one token takes: candidates that
# lie as close as this change places, as they do between any two batch sizes.
NEAR_TIE = 0.1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token and its log-probability in nats; `text` where the engine told it."""

    token: int
    logprob: float
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A greedy answer.

    Attributes:
        tokens: the ids.
        top: for each of them the likeliest candidates by id; empty where the engine did not tell.
    """

    tokens: tuple[int, ...]
    top: tuple[Mapping[int, Candidate], ...] = ()

    def candidates(self, index: int) -> Mapping[int, Candidate]:
        """The candidates at a position; none if they are not known."""
        return self.top[index] if index < len(self.top) else {}


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two answers part.

    Attributes:
        index: of the first token that differs, from 0.
        speculative, baseline: the tokens there; None where that answer has ended.
        speculative_text, baseline_text: their texts, where an engine told them.
        gap: by how many nats the baseline prefers its own token to the other one; None: not known.
        at_least: the other token is not among the baseline's candidates, so the gap is this or more.
    """

    index: int
    speculative: int | None
    baseline: int | None
    speculative_text: str | None
    baseline_text: str | None
    gap: float | None
    at_least: bool

    def near_tie(self, limit: float) -> bool:
        """True if the two candidates are known to lie within `limit` nats."""
        return self.gap is not None and not self.at_least and self.gap <= limit


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one prompt: how many tokens agree, and where the answers part, if they do."""

    prompt: str
    same: int
    divergence: Divergence | None


def compare(prompt: str, speculative: Answer, baseline: Answer) -> Row:
    """Compare two answers to one prompt."""
    pairs = zip(speculative.tokens, baseline.tokens, strict=False)
    index = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
    if index is None:
        index = min(len(speculative.tokens), len(baseline.tokens))
        if len(speculative.tokens) == len(baseline.tokens):
            return Row(prompt, index, None)
    theirs, ours = _at(speculative.tokens, index), _at(baseline.tokens, index)
    near, far = baseline.candidates(index), speculative.candidates(index)
    gap, at_least = _gap(near, ours, theirs)
    return Row(
        prompt,
        index,
        Divergence(index, theirs, ours, _text(theirs, far, near), _text(ours, near, far), gap, at_least),
    )


def safe(rows: Sequence[Row], limit: float) -> bool:
    """True if all answers are the same, or part only where candidates lie within `limit` nats."""
    return all(row.divergence is None or row.divergence.near_tie(limit) for row in rows)


def _gap(
    candidates: Mapping[int, Candidate], ours: int | None, theirs: int | None
) -> tuple[float | None, bool]:
    own = candidates.get(ours) if ours is not None else None
    if own is None:
        return None, False
    other = candidates.get(theirs) if theirs is not None else None
    if other is not None:
        return max(0.0, own.logprob - other.logprob), False
    return max(0.0, own.logprob - min(each.logprob for each in candidates.values())), True


def _at(tokens: tuple[int, ...], index: int) -> int | None:
    return tokens[index] if index < len(tokens) else None


def _text(token: int | None, *tables: Mapping[int, Candidate]) -> str | None:
    if token is None:
        return None
    found = [table[token].text for table in tables if token in table]
    return next((text for text in found if text is not None), None)
