"""How the result is told: a table for people, plain values for programs."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from router.core.identity import Identity
from router.verify.compare import Divergence, Row
from router.verify.run import Result

PROMPT_SHOWN = 32


def as_json(result: Result) -> dict[str, Any]:
    """Plain values. `index` counts from 0, gaps are nats, what is not known is null."""
    return {
        "safe": result.safe,
        "gap_limit": result.gap,
        "prompts": len(result.rows),
        "identical": result.identical,
        "engines": {"speculative": _engine(result.speculative), "baseline": _engine(result.baseline)},
        "rows": [_row(row, result.gap) for row in result.rows],
    }


def _engine(identity: Identity | None) -> dict[str, Any] | None:
    if identity is None:
        return None
    return {"version": identity.version, "model": identity.model, "speculative": identity.speculative}


def _row(row: Row, limit: float) -> dict[str, Any]:
    shown: dict[str, Any] = {"prompt": row.prompt, "same_tokens": row.same, "divergence": None}
    found = row.divergence
    if found is not None:
        shown["divergence"] = {
            "index": found.index,
            "speculative": {"token": found.speculative, "text": found.speculative_text},
            "baseline": {"token": found.baseline, "text": found.baseline_text},
            "gap": found.gap,
            "gap_is_lower_bound": found.at_least,
            "near_tie": found.near_tie(limit),
        }
    return shown


def as_table(result: Result) -> Table:
    """One line for each prompt."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (("prompt", "left"), ("same", "right"), ("parts at", "right")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for name in ("speculative", "baseline", "gap (nats)", ""):
        table.add_column(name, no_wrap=True)
    for row in result.rows:
        # Text, not markup: prompts and tokens are whatever they are.
        table.add_row(*(Text(cell) for cell in _cells(row, result.gap)))
    return table


def _cells(row: Row, limit: float) -> tuple[str, ...]:
    prompt = _quoted(row.prompt[: PROMPT_SHOWN + 1])
    if len(row.prompt) > PROMPT_SHOWN:
        prompt = _quoted(row.prompt[:PROMPT_SHOWN] + "…")
    found = row.divergence
    if found is None:
        return prompt, str(row.same), "-", "", "", "", "identical"
    return (
        prompt,
        str(row.same),
        str(found.index),
        _token(found.speculative, found.speculative_text),
        _token(found.baseline, found.baseline_text),
        _gap(found),
        "near-tie" if found.near_tie(limit) else "DIFFERENT",
    )


def _token(token: int | None, text: str | None) -> str:
    if token is None:
        return "end"
    return f"#{token}" if text is None else f"{_quoted(text)} #{token}"


def _gap(found: Divergence) -> str:
    if found.gap is None:
        return "unknown"
    return f"{'>= ' if found.at_least else ''}{found.gap:.4f}"


def _quoted(text: str) -> str:
    """One line, whatever is in it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def verdict(result: Result) -> str:
    """One sentence: is a switch safe?"""
    count, parted = len(result.rows), len(result.rows) - result.identical
    if not parted:
        return f"Safe: all {count} greedy answers are identical."
    far = sum(row.divergence is not None and not row.divergence.near_tie(result.gap) for row in result.rows)
    if not far:
        return (
            f"Safe: {result.identical} of {count} greedy answers are identical, and {parted} part at "
            f"near-ties (within {result.gap:g} nats)."
        )
    return (
        f"Unsafe: {far} of {count} greedy answers part where the baseline is not in doubt (more than "
        f"{result.gap:g} nats, or not known): a switch would change what clients read."
    )


def doubts(result: Result) -> list[str]:
    """What may be wrong with the comparison itself."""
    found = []
    for path, identity, kind in (
        ("speculative", result.speculative, True),
        ("baseline", result.baseline, False),
    ):
        if identity is not None and identity.speculative is (not kind):
            found.append(f"the {path} engine {'runs no' if kind else 'runs a'} speculative algorithm")
    one, other = result.speculative, result.baseline
    if one and other and None not in (one.model, other.model) and one.model != other.model:
        found.append("the engines serve different models")
    return found
