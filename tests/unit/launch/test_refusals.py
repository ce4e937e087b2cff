"""What is refused, why, and what is offered instead."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any

import pytest

from router.core.words import Placement
from router.launch.plan import EngineExtras, Kind, PerPath, Plan, Refusal
from tests.unit.launch import models
from tests.unit.launch.planned import fits, planned, refused, shape


@pytest.fixture
def llama(tmp_path: FilePath) -> Any:
    def plan(gpus: str = "8x96GiB", draft: bool = True, **wishes: Any) -> Plan | Refusal:
        target = shape(tmp_path, "llama", models.LLAMA_70B, models.LLAMA_70B_BYTES)
        head = shape(tmp_path, "eagle", models.LLAMA_EAGLE3, models.LLAMA_EAGLE3_BYTES) if draft else None
        return planned(target, head, gpus, **wishes)

    return plan


def args(*words: str) -> PerPath[EngineExtras]:
    return PerPath(EngineExtras(), EngineExtras(words))


@pytest.mark.parametrize(
    ("wishes", "kind", "reason"),
    [
        ({"policy_high": 33}, Kind.LIMITS, "policy.high 33 is above the speculative engine's --max-running"),
        ({"tp": 3}, Kind.LIMITS, "tp 3 does not divide the 64 attention heads of llama"),
        ({"context": 200_000}, Kind.LIMITS, "context 200000 is above the 131072 tokens that llama knows"),
        ({"gpus": "4x96GiB"}, Kind.GPUS, "the speculative engine needs the GPUs 0 to 7, but there are 4"),
        (
            {"placement": Placement.SEPARATE, "tp": 4, "base_gpu": PerPath(0, 2)},
            Kind.GPUS,
            "with placement separate both engines have GPUs in common",
        ),
        (
            {"tp": 4, "base_gpu": PerPath(0, 4)},
            Kind.GPUS,
            "with placement shared both engines have the same GPUs",
        ),
        (
            {"profile": "adaptive"},
            Kind.PROFILE,
            "profile adaptive is for placement single, separate, not shared",
        ),
        ({"profile": "baseline"}, Kind.PROFILE, "profile baseline is for placement single, not shared"),
        ({"draft": False}, Kind.PROFILE, "profile eagle3-chain needs a draft model"),
        (
            {"extras": args("--mem-fraction-static", "0.9")},
            Kind.FLAGS,
            "launch.engines.baseline.args: --mem-fraction-static is set by the plan; use launch.kv_share",
        ),
        ({"extras": args("--port=1")}, Kind.FLAGS, "launch.engines.baseline.args: --port is set by the plan"),
        ({"extras": args("--cuda-graph-max-bs", "8")}, Kind.FLAGS, "replaced by --cuda-graph-max-bs-decode"),
        (
            {"extras": args("--enable-torch-symm-mem"), "hardware": "blackwell-pcie"},
            Kind.FLAGS,
            "--enable-torch-symm-mem on blackwell-pcie: its table knows major versions 9 and 10 only",
        ),
        (
            {"extras": args("--attention-backend=fa3"), "hardware": "blackwell-pcie"},
            Kind.FLAGS,
            "--attention-backend fa3 on blackwell-pcie: FlashAttention 3 is for SM90",
        ),
        (
            {"extras": PerPath(EngineExtras((), {"SGLANG_ENABLE_SPEC_V2": "1"}), EngineExtras())},
            Kind.FLAGS,
            "SGLANG_ENABLE_SPEC_V2 on generic: nothing reads it any more",
        ),
        ({"kv_share": 0.01}, Kind.MEMORY, "with kv_share 0.01 one pool is too small for a request of 32768"),
    ],
)
def test_refused(llama: Any, wishes: dict[str, Any], kind: Kind, reason: str) -> None:
    refusal = refused(llama(**wishes))
    assert refusal.kind is kind
    assert reason in refusal.reason


def test_what_one_kind_of_hardware_refuses_another_takes(llama: Any) -> None:
    fits(llama(extras=args("--attention-backend", "fa3"), hardware="hopper"))


def test_a_refused_share_says_which_would_do(llama: Any) -> None:
    refusal = refused(llama(kv_share=0.01))
    low, high = (float(word) for word in refusal.reason.rsplit("allowed: ", 1)[1].split(" to "))
    fits(llama(kv_share=low))
    fits(llama(kv_share=high))
    refused(llama(kv_share=low - 0.01))
    assert refusal.recommended is not None
    assert refusal.recommended.config == "kv_share: null"


def test_a_context_that_is_too_long_is_answered_with_the_longest_that_fits(llama: Any) -> None:
    cards = "4x104GiB"
    refusal = refused(llama(cards, tp=4, context=131072))
    assert "one request of 131072 tokens needs" in refusal.reason
    shorter = next(option for option in refusal.options if option.title == "a shorter context")
    assert shorter.plan is not None
    longest = shorter.plan.wishes.context
    fits(llama(cards, tp=4, context=longest))
    refused(llama(cards, tp=4, context=longest + 256))
    fp8 = next(option for option in refusal.options if option.config == "kv_dtype: fp8_e4m3")
    assert fp8.plan is not None


def test_every_option_that_is_said_to_fit_does(llama: Any) -> None:
    refusal = refused(llama("8x48GiB"))
    assert [option.title for option in refusal.options if option.plan] == [
        "4 + 4 GPUs",
        "one engine with --speculative-adaptive",
    ]
    assert refusal.recommended is refusal.options[-2]
    assert refusal.recommended.plan is not None
    assert refusal.recommended.plan.placement is Placement.SEPARATE


def test_a_refusal_adds_up(llama: Any) -> None:
    refusal = refused(llama("8x48GiB"))
    assert refusal.attempt is not None
    both = next(line for line in refusal.arithmetic if line.startswith("both: "))
    total = sum(engine.total for engine in refusal.attempt.engines)
    assert both == f"both: {total / (1 << 30):.1f} + spare 1.0 GiB of 48.0"


def test_fewer_requests_than_wished_are_said(llama: Any) -> None:
    """A thousandth of 42 GiB is 1024 tokens, and SGLang runs half as many requests as it has tokens."""
    plan = fits(llama(context=256, concurrency=PerPath(600, 32), kv_share=0.001))
    assert (plan.engines[0].tokens, plan.engines[0].running) == (1024, 512)
    assert any("speculative: 512 instead of 600 running requests" in each for each in plan.warnings)
    narrow = refused(llama(context=256, concurrency=PerPath(600, 32), kv_share=0.001, policy_high=513))
    assert narrow.reason == "policy.high 513 is above the 512 requests that the pool can run"
