from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from router.sim.prefix import BLOCK_TOKENS, PrefixCache, block_hashes

tokens = st.lists(st.integers(0, 3), max_size=200)


@given(tokens, tokens, tokens)
def test_equal_hashes_are_exactly_the_equal_prefixes(
    head: list[int], one: list[int], other: list[int]
) -> None:
    a, b = block_hashes(head + one), block_hashes(head + other)
    shared = 0
    for x, y in zip(head + one, head + other, strict=False):
        if x != y:
            break
        shared += 1
    same = [x == y for x, y in zip(a, b, strict=False)]
    assert same == [(i + 1) * BLOCK_TOKENS <= shared for i in range(len(same))]


def test_a_repeated_prompt_computes_only_its_tail() -> None:
    cache = PrefixCache(10_000)
    prompt = list(range(100))
    assert cache.match(block_hashes(prompt), 100) == 0
    cache.remember(block_hashes(prompt))
    assert cache.match(block_hashes(prompt), 100) == 96
    assert cache.match(block_hashes([*prompt, 1, 2, 3]), 103) == 96


def test_the_last_token_is_always_computed() -> None:
    cache = PrefixCache(10_000)
    blocks = block_hashes(list(range(32)))
    cache.remember(blocks)
    assert cache.match(blocks, 32) == 31


def test_the_least_recently_used_goes_first() -> None:
    cache = PrefixCache(4 * BLOCK_TOKENS)
    first, second, third = (block_hashes([n] * 32) for n in (1, 2, 3))
    cache.remember(first)
    cache.remember(second)
    cache.remember(first)
    cache.remember(third)
    assert cache.match(first, 33) == 32
    assert cache.match(second, 33) == 0


@given(st.lists(tokens, max_size=20), st.integers(0, 100))
def test_never_holds_more_than_its_bound(prompts: list[list[int]], capacity: int) -> None:
    cache = PrefixCache(capacity)
    for prompt in prompts:
        cache.remember(block_hashes(prompt))
        assert len(cache) * BLOCK_TOKENS <= capacity


def test_clear() -> None:
    cache = PrefixCache(100)
    cache.remember((1, 2))
    cache.clear()
    assert len(cache) == 0
