"""Running the comparison: every prompt to both engines, one prompt at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx

from router.core.identity import Identity
from router.verify.ask import Asker, Refused, Target
from router.verify.compare import Row, compare, safe


@dataclass(frozen=True, slots=True)
class Result:
    """What was found; `gap` is the limit in nats that `safe` was judged with."""

    rows: tuple[Row, ...]
    speculative: Identity | None
    baseline: Identity | None
    gap: float

    @property
    def safe(self) -> bool:
        """True if a switch between the engines changes no text but at near-ties."""
        return safe(self.rows, self.gap)

    @property
    def identical(self) -> int:
        """Prompts with the same answers."""
        return sum(row.divergence is None for row in self.rows)


async def compare_engines(
    speculative: Target,
    baseline: Target,
    prompts: Sequence[str],
    *,
    max_tokens: int,
    timeout: float,
    gap: float,
    on_row: Callable[[Row], None] = lambda row: None,
) -> Result:
    """Compare the engines' greedy answers.

    Nothing else should load the engines meanwhile: another batch means other kernels, hence other near-ties.

    Args:
        prompts: sent as they are, without a chat template.
        max_tokens: longest answer.
        timeout: seconds for one answer.
        gap: nats within which two candidates count as a near-tie.
        on_row: told of each prompt when it has been compared.

    Raises:
        Unreachable: an engine gave no usable answer.
        Refused: an engine does not take a prompt; its number is in the text.
    """
    async with httpx.AsyncClient(trust_env=False) as client:
        fast, plain = (Asker(client, each, max_tokens, timeout) for each in (speculative, baseline))
        identities = await asyncio.gather(fast.identity(), plain.identity())
        rows = []
        for number, prompt in enumerate(prompts, 1):
            # One after the other: on shared GPUs both would run at half their speed.
            try:
                rows.append(compare(prompt, await fast.ask(prompt), await plain.ask(prompt)))
            except Refused as refused:
                raise Refused(f"prompt {number}: {refused}") from None
            on_row(rows[-1])
    return Result(tuple(rows), *identities, gap)
