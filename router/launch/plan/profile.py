"""Profiles as values: how the speculative engine drafts, and what a kind of hardware can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from router.core.words import Placement


@dataclass(frozen=True, slots=True)
class Tier:
    """From this decode batch size on, the engine chooses among these draft steps; 0 drafts nothing."""

    batch: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SpeculationProfile:
    """How one engine speculates. `algorithm` None is an engine without speculation."""

    name: str
    description: str
    algorithm: str | None = None
    draft_model: bool = False
    steps: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    tiers: tuple[Tier, ...] = ()
    placements: tuple[Placement, ...] = tuple(Placement)
    args: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def graph_sets(self) -> int:
        """How many sets of CUDA graphs are captured: one for each distinct number of steps."""
        return max(1, len({steps for tier in self.tiers for steps in tier.steps}))

    @property
    def reserved_tokens(self) -> int:
        """Tokens of a request's length that drafting takes (`managers/utils.py`, 0.5.23)."""
        if self.algorithm is None:
            return 0
        return max((self.topk or 1) * (self.steps or 1), self.draft_tokens or 1)


def profile_problem(profile: SpeculationProfile) -> str | None:
    """Why an engine would not start with this profile, or None."""
    if profile.algorithm is None:
        return "draft settings without an algorithm" if profile.tiers or profile.steps else None
    given = (profile.steps, profile.topk, profile.draft_tokens)
    if profile.algorithm.startswith("EAGLE") and None in given:
        return "steps, topk and draft_tokens are needed together; SGLang asserts it"
    steps, draft_tokens = profile.steps or 0, profile.draft_tokens or 0
    if profile.algorithm.startswith("EAGLE") and profile.topk == 1 and draft_tokens != steps + 1:
        return f"topk 1 with {steps} steps has {steps + 1} draft tokens, not {draft_tokens}"
    return _tier_problem(profile, steps) if profile.tiers else None


def _tier_problem(profile: SpeculationProfile, steps: int) -> str | None:
    if profile.algorithm not in ("EAGLE", "EAGLE3") or profile.topk != 1:
        return "tiers work with EAGLE or EAGLE3 and topk 1 only; SGLang would ignore them"
    batches = [tier.batch for tier in profile.tiers]
    if batches[0] != 1 or batches != sorted(set(batches)):
        return "tiers start at batch size 1 and rise"
    highest = max(step for tier in profile.tiers for step in tier.steps)
    if highest != steps:
        # 0.5.16 sizes its logits buffer by the start value: a higher tier asks for more rows than it has, and
        # the engine dies while it captures graphs.
        return (
            f"tiers reach {highest} steps = {highest + 1} draft tokens, but steps is {steps}: SGLang 0.5.16 "
            f"sizes its logits buffer for {steps + 1} and crashes at start; set steps {highest} and "
            f"draft_tokens {highest + 1}"
        )
    return None


@dataclass(frozen=True, slots=True)
class RefusedFlag:
    """A flag (with or without its value) or an environment variable that does not do what it promises."""

    match: str
    reason: str

    def hits(self, args: tuple[str, ...], env: Mapping[str, str]) -> bool:
        """Whether an operator's additions contain it; `--flag=value` counts as `--flag value`."""
        if not self.match.startswith("--"):
            return self.match in env
        words = tuple(
            word for arg in args for word in (arg.split("=", 1) if arg.startswith("--") else (arg,))
        )
        wanted = tuple(self.match.split())
        return any(words[at : at + len(wanted)] == wanted for at in range(len(words)))


@dataclass(frozen=True, slots=True)
class HardwareProfile:
    """What a kind of GPU needs.

    Attributes:
        attention_mla, attention_gqa: value of `--attention-backend`; None leaves the choice to SGLang.
        args, env: for every engine.
        env_alone: only for an engine that has its GPUs to itself.
        refused: what people try and what silently does nothing, with the reason.
        notes, notes_shared: what an operator should know, always and where two engines share GPUs.
    """

    name: str
    description: str = ""
    attention_mla: str | None = None
    attention_gqa: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    env_alone: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[RefusedFlag, ...] = ()
    notes: tuple[str, ...] = ()
    notes_shared: tuple[str, ...] = ()
