"""How SGLang takes GPU memory, as a pure function of what a run happens to use (0.5.16 to 0.5.23).

One tensor-parallel engine, rank i on GPU i. In this order: context and NCCL; `pre`, the least free memory
over the ranks, and the check that they are about equal; weights and draft; the pool, which is what is free
now less `pre * (1 - fraction)`; the draft's pool; everything else, which nothing caps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class EngineFailed(Exception):
    """The engine would not start; the text is what it prints."""


@dataclass(frozen=True, slots=True)
class Use:
    """What this run takes on each GPU, in bytes; `late` is taken some time after the start."""

    context: int
    weights: int
    draft: int
    early: int
    late: int
    features: int = 0


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags that matter: fraction, cap in tokens, and the check's switch."""

    fraction: float
    max_total_tokens: int | None
    check_balance: bool = True


@dataclass(frozen=True, slots=True)
class Kv:
    """Bytes per token on one GPU: what the pool is divided by, the target's pool, the draft's own pool."""

    cell: int
    target: int
    draft: int
    page: int = 64


@dataclass(frozen=True, slots=True)
class Started:
    """A running engine: its pool, and what is free on each GPU now."""

    tokens: int
    free: tuple[int, ...]


def start(free: Sequence[int], flags: Flags, kv: Kv, use: Use) -> Started:
    """Start an engine on GPUs with so much free memory each. Raises EngineFailed."""
    if not 0 < flags.fraction < 1:
        raise EngineFailed(f"mem_fraction_static={flags.fraction}")
    now = take(free, use.context, "context")
    pre = min(now)
    for own in now:
        if flags.check_balance and pre < 0.9 * own:
            raise EngineFailed("The memory capacity is unbalanced.")
    now = take(now, use.weights, "weights")
    now = take(now, use.draft, "draft weights")
    rest = min(now) - pre * (1 - flags.fraction) - use.features
    if rest <= 0:
        raise EngineFailed("Loaded weights leave no GPU memory for the KV cache")
    tokens = int(rest) // kv.cell
    if flags.max_total_tokens is not None:
        tokens = min(tokens, flags.max_total_tokens)
    tokens = tokens // kv.page * kv.page
    now = take(now, tokens * (kv.target + kv.draft), "KV pools")
    return Started(tokens, take(now, use.features + use.early, "graphs and workspaces"))


def take(free: Sequence[int], amount: int, what: str) -> tuple[int, ...]:
    """What is left on each GPU. Raises EngineFailed where a GPU has less."""
    if min(free) < amount:
        raise EngineFailed(f"CUDA out of memory: {what}")
    return tuple(each - amount for each in free)
