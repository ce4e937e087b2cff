"""What would fit where something does not: each change is planned, not guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from router.core.words import Path, Placement
from router.launch.plan.footprint import element_bytes
from router.launch.plan.profile import SpeculationProfile
from router.launch.plan.result import EnginePlan, Option, Plan, Refusal, gib
from router.launch.plan.shapes import ModelShape
from router.launch.plan.split import PAGE
from router.launch.plan.wishes import PerPath, Wishes

Again = Callable[[Wishes, SpeculationProfile], Plan | Refusal]
LEAST_CONTEXT = 1024
SMALL_PREFILL = 2048


def options(
    refusal: Refusal,
    model: ModelShape,
    gpus: int,
    wishes: Wishes,
    profile: SpeculationProfile,
    adaptive: SpeculationProfile | None,
    again: Again,
) -> Refusal:
    """The refusal with every change that was tried."""
    tried = _tried(model, gpus, wishes, profile, adaptive, again)
    return replace(refusal, options=tuple(tried))


def _tried(
    model: ModelShape,
    gpus: int,
    wishes: Wishes,
    profile: SpeculationProfile,
    adaptive: SpeculationProfile | None,
    again: Again,
) -> Iterator[Option]:
    if wishes.kv_share is not None and wishes.placement is Placement.SHARED:
        yield _option(
            "a share by concurrency", "kv_share: null", again(replace(wishes, kv_share=None), profile)
        )
    if wishes.chunked_prefill > SMALL_PREFILL:
        smaller = replace(wishes, chunked_prefill=SMALL_PREFILL)
        yield _option("shorter prefill steps", f"chunked_prefill: {SMALL_PREFILL}", again(smaller, profile))
    yield _fewer_tokens(wishes, profile, again)
    if element_bytes(model, wishes.kv_dtype) > 1:
        fp8 = replace(wishes, kv_dtype="fp8_e4m3")
        yield _option("KV cache in fp8", "kv_dtype: fp8_e4m3", again(fp8, profile))
    if wishes.placement is Placement.SHARED and gpus >= 2:
        half = gpus // 2
        own = replace(
            wishes, placement=Placement.SEPARATE, tp=half, base_gpu=PerPath(None, None), kv_share=None
        )
        title = f"{half} + {half} GPUs"
        yield _option(title, f"placement: separate, tp: {half}", again(own, profile))
    if wishes.placement is not Placement.SINGLE and adaptive is not None:
        yield _single(model, gpus, wishes, adaptive, again)


def _fewer_tokens(wishes: Wishes, profile: SpeculationProfile, again: Again) -> Option:
    context = _longest_context(wishes, profile, again)
    if context is None:
        return Option("a shorter context", "context", f"does not help: not even {LEAST_CONTEXT} tokens fit")
    found = again(replace(wishes, context=context), profile)
    return _option("a shorter context", f"context: {context}", found)


def _longest_context(wishes: Wishes, profile: SpeculationProfile, again: Again) -> int | None:
    """By bisection: the request table shrinks with the context too, so a closed form is not worth it."""
    low, high = LEAST_CONTEXT // PAGE, (wishes.context - 1) // PAGE

    def fits(pages: int) -> bool:
        return isinstance(again(replace(wishes, context=pages * PAGE), profile), Plan)

    if high < low or not fits(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low * PAGE


def _single(
    model: ModelShape, gpus: int, wishes: Wishes, adaptive: SpeculationProfile, again: Again
) -> Option:
    tp = gpus if wishes.placement is Placement.SEPARATE else wishes.tp
    base = replace(wishes, placement=Placement.SINGLE, tp=tp, policy_high=None, kv_share=None)
    config = f"placement: single, profile: {adaptive.name}" + (f", tp: {tp}" if tp != wishes.tp else "")
    title = "one engine with --speculative-adaptive"
    found = again(base, adaptive)
    if isinstance(found, Plan):
        return _option(title, config, found)
    fp8 = replace(base, kv_dtype="fp8_e4m3")
    if element_bytes(model, wishes.kv_dtype) > 1 and isinstance(again(fp8, adaptive), Plan):
        return _option(title, f"{config}, kv_dtype: fp8_e4m3", again(fp8, adaptive))
    context = _longest_context(base, adaptive, again)
    if context is None:
        return _option(title, config, found)
    return _option(title, f"{config}, context: {context}", again(replace(base, context=context), adaptive))


def _option(title: str, config: str, found: Plan | Refusal) -> Option:
    if isinstance(found, Refusal):
        return Option(title, config, f"does not fit: {found.reason}")
    return Option(title, config, f"fits: {_pools(found)}", found)


def _pools(plan: Plan) -> str:
    return ", ".join(f"{engine.path.value} {_pool(engine)}" for engine in plan.engines)


def _pool(engine: EnginePlan) -> str:
    size = f"{gib(engine.kv_bytes)} GiB of KV per GPU"
    if engine.tokens is None:
        return size
    tiers = ""
    if engine.path is Path.SPECULATIVE and engine.profile.tiers:
        steps = "; ".join(f"from batch {tier.batch} {list(tier.steps)}" for tier in engine.profile.tiers)
        tiers = (
            f", draft steps {steps}, --speculative-num-steps {engine.profile.steps} "
            f"--speculative-num-draft-tokens {engine.profile.draft_tokens}"
        )
    return f"{engine.tokens} tokens ({size}), {engine.running} requests{tiers}"
