"""The prefix cache of one simulated engine: which prompt blocks it has computed before."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

BLOCK_TOKENS = 16


def block_hashes(tokens: Sequence[str] | Sequence[int]) -> tuple[int, ...]:
    """One hash per full block of tokens; each covers everything before it, so equal hashes mean equal
    prefixes.

    Values hold within one process only (Python salts the hashes of strings).
    """
    hashes = []
    chained = 0
    for end in range(BLOCK_TOKENS, len(tokens) + 1, BLOCK_TOKENS):
        chained = hash((chained, tuple(tokens[end - BLOCK_TOKENS : end])))
        hashes.append(chained)
    return tuple(hashes)


class PrefixCache:
    """Remembers prompt blocks, least recently used out first."""

    def __init__(self, capacity_tokens: int) -> None:
        self._capacity = max(0, capacity_tokens // BLOCK_TOKENS)
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def match(self, blocks: Sequence[int], prompt_tokens: int) -> int:
        """Tokens of the prompt that need no prefill. The last token is always computed, as in SGLang."""
        found = 0
        for block in blocks:
            if block not in self._blocks:
                break
            found += 1
        return max(0, min(found * BLOCK_TOKENS, prompt_tokens - 1))

    def remember(self, blocks: Sequence[int]) -> None:
        """Keep these blocks; the tail of a prefix is forgotten before its head."""
        for block in reversed(blocks):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._capacity:
            self._blocks.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._blocks.clear()
