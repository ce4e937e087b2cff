"""What an operator should know about a plan that fits."""

from __future__ import annotations

from collections.abc import Iterator

from router.core.words import Path, Placement
from router.launch.plan.result import EnginePlan, Plan, gib


def warnings(plan: Plan) -> tuple[str, ...]:
    """In the order of their weight."""
    return (
        *_measured(plan),
        *_blocks(plan),
        *_profile(plan),
        *_lengths(plan),
        *_draft(plan),
        *plan.hardware.notes,
        *(plan.hardware.notes_shared if plan.placement is Placement.SHARED else ()),
    )


def _measured(plan: Plan) -> Iterator[str]:
    if plan.model.measured and plan.wishes.kv_cell is None:
        yield (
            f"KV memory of {plan.model.name} is measured, not predicted: {plan.model.measured}. Token counts "
            "are unknown until the first engine runs; divide its memory_usage.kvcache by "
            "max_total_num_tokens (both in /server_info), set launch.kv_cell and plan again to pin "
            "--max-total-tokens"
        )


def _blocks(plan: Plan) -> Iterator[str]:
    model, tp = plan.model, plan.wishes.tp
    width = model.expert_width // tp
    if model.experts and model.weight_block and width % model.weight_block:
        yield (
            f"moe_intermediate_size {model.expert_width} / tp {tp} = {width} is no multiple of the "
            f"{model.weight_block} of a block of quantised weights: SGLang refuses to load it, "
            f"unless experts are divided whole (--ep-size {tp} in launch.engines.*.args) or tp is smaller"
        )


def _profile(plan: Plan) -> Iterator[str]:
    for engine in plan.engines:
        yield from engine.profile.warnings
        for tier in engine.profile.tiers:
            if tier.batch > engine.running:
                yield f"the tier from {tier.batch} requests on is never reached: {engine.running} run at most"


def _lengths(plan: Plan) -> Iterator[str]:
    for engine in plan.engines:
        wanted = plan.wishes.concurrency
        single = plan.placement is Placement.SINGLE
        wish = max(wanted.speculative, wanted.baseline) if single else wanted[engine.path]
        if engine.running < wish:
            yield (
                f"{engine.path.value}: {engine.running} instead of {wish} running requests, half the pool's "
                "tokens: SGLang lowers the limit by itself"
            )
        reserved = engine.profile.reserved_tokens
        if reserved and not single:
            yield (
                f"the speculative path refuses requests within {reserved} tokens of the context length that "
                "the baseline takes; the router sends those there"
            )


def _draft(plan: Plan) -> Iterator[str]:
    draft = plan.draft
    if draft is None:
        return
    if plan.wishes.context > draft.max_context:
        yield (
            f"the draft {draft.name} knows {draft.max_context} tokens, the context is {plan.wishes.context}: "
            "the speculative engine is started with SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1, and drafts "
            "of longer requests may be accepted less"
        )
    engine: EnginePlan = plan.engine(Path.SPECULATIVE)
    if engine.cell.excess:
        extra = engine.kv_bytes - engine.budget
        how = "estimated" if engine.tokens is None else "counted"
        yield (
            f"the draft's KV has another shape than the target's: {engine.cell.excess} B a token more than "
            f"SGLang budgets, {gib(extra)} GiB per GPU, taken from the headroom and {how} here"
        )
