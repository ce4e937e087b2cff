"""Plans of known models, added up by hand. M is MiB, B are bytes; all per GPU.

An RTX PRO 6000 has 97887 M. Of it 1024 M stay spare and each engine's context takes 1536 M. With prefill
steps of 2048 tokens activations are 2048 x 1.5 = 3072 M. Graphs are (2 M x requests + 1536 M), twice that
where there is speculation. Headroom on such a card is at least 6144 M for the baseline (128 requests: 1792 +
3072 M and tables are less) and 8192 M for the speculative engine (32 requests: 3200 + 3072 M and tables are
less). So both engines leave 97887 - 1024 - 2 x 1536 - 6144 - 8192 = 79455 M = 83,314,606,080 B for weights
and pools.
Pools are divided 32 : 128 and are multiples of 256 tokens.
"""

from __future__ import annotations

from pathlib import Path as FilePath

import pytest

from router.core.words import Path, Placement
from router.launch.plan import Kind
from tests.unit.launch import models
from tests.unit.launch.planned import fits, planned, refused, shape

GIB = 1 << 30
MIB = 1 << 20
S, B = Path.SPECULATIVE, Path.BASELINE


def test_llama_70b_on_8_rtx_pro_6000(tmp_path: FilePath) -> None:
    """Weights 141,107,412,992 x 1.04 / 8 = 18,343,963,689 B twice, draft 3.2e9 x 1.04 / 8 = 416,000,000 B.

    Left for pools: 83,314,606,080 - 2 x 18,343,963,689 - 416,000,000 = 46,210,678,702 B.
    A token: 80 layers x 1 head x 256 x 2 B = 40,960 B; with one draft layer 41,472 B.
    Speculative: 0.2 x 46,210,678,702 / 41,472 = 222,852 -> 222,720 tokens.
    Baseline: 0.8 x 46,210,678,702 / 40,960 = 902,552 -> 902,400 tokens.
    Fraction: (18,343,963,689 + 416,000,000 + 222,720 x 41,472) / 96351 M = 0.27711, up to 0.2772.
    """
    target = shape(tmp_path, "llama", models.LLAMA_70B, models.LLAMA_70B_BYTES)
    draft = shape(tmp_path, "eagle", models.LLAMA_EAGLE3, models.LLAMA_EAGLE3_BYTES)
    plan = fits(planned(target, draft, "8x96GiB"))
    fast, plain = plan.engine(S), plan.engine(B)
    assert fast.fixed.weights == plain.fixed.weights == 18_343_963_689
    assert (fast.fixed.draft, plain.fixed.draft) == (416_000_000, 0)
    assert (fast.headroom, plain.headroom) == (8 * GIB, 6 * GIB)
    assert (fast.cell.total, plain.cell.total) == (41_472, 40_960)
    assert (fast.tokens, plain.tokens) == (222_720, 902_400)
    assert fast.fraction == 0.2772
    # What rounding to pages leaves is less than a page of each engine.
    assert 1024 * MIB <= plan.spare(0) < 1024 * MIB + 256 * (41_472 + 40_960)


def test_qwen3_235b_fp8_on_8_rtx_pro_6000(tmp_path: FilePath) -> None:
    """Weights 237e9 x 1.04 / 8 = 30,810,000,000 B twice, draft 1e9 x 1.04 / 8 = 130,000,000 B.

    Left: 83,314,606,080 - 61,620,000,000 - 130,000,000 = 21,564,606,080 B.
    A token: 94 layers x 1 head (4 heads on 8 ranks are replicated) x 256 x 2 B = 48,128 B; the draft 512.
    Speculative: 0.2 x 21,564,606,080 / 48,640 = 88,670 -> 88,576.
    Baseline: 0.8 x 21,564,606,080 / 48,128 = 358,454 -> 358,400.
    """
    target = shape(tmp_path, "qwen", models.QWEN3_235B_FP8, models.QWEN3_235B_FP8_BYTES)
    draft = shape(
        tmp_path,
        "eagle",
        {**models.LLAMA_EAGLE3, "hidden_size": 4096, "head_dim": 128, "num_key_value_heads": 4},
        10**9,
    )
    plan = fits(planned(target, draft, "8x97887MiB"))
    assert plan.engine(S).fixed.weights == 30_810_000_000
    assert (plan.engine(S).cell.total, plan.engine(B).cell.total) == (48_640, 48_128)
    assert (plan.engine(S).tokens, plan.engine(B).tokens) == (88_576, 358_400)
    assert any("moe_intermediate_size 1536 / tp 8 = 192" in each for each in plan.warnings)


def test_gpt_oss_is_measured(tmp_path: FilePath) -> None:
    """Half of its layers keep 128 tokens only: bytes are divided, token counts are not claimed.

    An H200 has 143771 M. Left: 143771 - 1024 - 2 x 1536 - 6144 - 8192 = 125339 M = 131,427,467,264 B, less
    twice 65.25e9 x 1.04 / 4 = 16,965,000,000 B and a draft of 260,000,000 B: 97,237,467,264 B.
    """
    target = shape(tmp_path, "gpt-oss", models.GPT_OSS_120B, models.GPT_OSS_120B_BYTES)
    draft = shape(tmp_path, "eagle", models.LLAMA_EAGLE3, 10**9)
    plan = fits(planned(target, draft, "4x141GB", tp=4, hardware="hopper"))
    assert "sliding window" in (target.measured or "")
    assert [engine.tokens for engine in plan.engines] == [None, None]
    assert plan.engine(S).kv_bytes == 19_447_493_452
    assert plan.engine(B).kv_bytes == 97_237_467_264 - 19_447_493_452
    # As if all layers were full: of 19,456 B a token 512 B are the draft's beyond SGLang's guess.
    assert plan.engine(S).budget == 19_447_493_452 * (18_432 + 512) // (18_432 + 1_024)
    assert "measured, not predicted" in plan.warnings[0]


def test_a_measured_model_is_pinned_once_its_cell_is_known(tmp_path: FilePath) -> None:
    """20,000 B a token as the engine said; the draft's layer is guessed 555 B and is 1024 B."""
    target = shape(tmp_path, "gpt-oss", models.GPT_OSS_120B, models.GPT_OSS_120B_BYTES)
    draft = shape(tmp_path, "eagle", models.LLAMA_EAGLE3, 10**9)
    plan = fits(planned(target, draft, "4xh200", tp=4, kv_cell=20_000))
    assert (plan.engine(S).cell.budget, plan.engine(S).cell.excess) == (20_555, 1024 - 555)
    assert plan.engine(B).tokens == (97_237_467_264 - 19_447_493_452) // 20_000 // 256 * 256


def kimi(tmp_path: FilePath, draft: dict[str, object] = models.KIMI_EAGLE3_MLA):  # type: ignore[no-untyped-def]
    return (
        shape(tmp_path, "kimi", models.KIMI_K25, models.KIMI_K25_BYTES),
        shape(tmp_path, "draft", draft, models.KIMI_EAGLE3_BYTES),
    )


def test_kimi_twice_is_impossible_and_one_adaptive_engine_is_recommended(tmp_path: FilePath) -> None:
    """595e9 x 1.04 / 8 = 77,350,000,000 B = 72.04 GiB; twice that is 144.1 of 95.6 GiB.

    One engine: 97887 - 1024 - 1536 M; graphs of two step counts (0 and 3) for 128 requests
    (256 + 1536) x 2 x 2 = 7168 M; activations 3072 M; table 4 x 129 x 32776 = 16,912,416 B; workspace 1024 M:
    84063 M = 88,146,444,288 B. Less the table, weights and draft (6.03e9 x 1.04 / 8 = 783,900,000 B) leaves
    9,995,631,872 B; at 61 x 576 x 2 + 1152 = 71,424 B a token 139,947 -> 139,776 tokens.
    """
    refusal = refused(planned(*kimi(tmp_path), "8x96GiB"))
    assert refusal.kind is Kind.MEMORY
    assert refusal.reason.startswith(
        "two copies of 72.0 GiB each, 144.8 GiB with the draft, do not fit into the 95.6"
    )
    assert "weights: 554.1 GiB stored x 1.04 / tp 8 = 72.0 GiB per GPU" in refusal.arithmetic
    assert [option.plan is not None for option in refusal.options] == [False, False, False, True]
    best = refusal.recommended
    assert best is not None
    assert best.config == "placement: single, profile: adaptive"
    assert best.plan is not None
    engine = best.plan.engine(S)
    assert engine.fixed.weights == 77_350_000_000
    assert engine.tokens == 139_776
    assert "--speculative-num-steps 3 --speculative-num-draft-tokens 4" in best.says


def test_kimi_does_not_fit_on_4_plus_4(tmp_path: FilePath) -> None:
    """595e9 x 1.04 / 4 = 154.7e9 B = 144.1 GiB of weights on each GPU."""
    refusal = refused(planned(*kimi(tmp_path), "8x96GiB", placement=Placement.SEPARATE, tp=4))
    assert refusal.reason.startswith("weights of 144.1 GiB, 145.5 GiB with the draft, do not fit")
    assert refusal.recommended is not None
    assert "tp: 8" in refusal.recommended.config


def test_a_draft_of_another_shape_costs_more_than_sglang_budgets(tmp_path: FilePath) -> None:
    """SGLang budgets 70,272 / 61 = 1152 B for the draft's layer. An MLA draft takes that, a Llama-style one
    64 / 8 heads x 256 x 2 B = 4096 B, 2944 B more. 300,000 tokens of it are 0.82 GiB.
    """
    single = {"placement": Placement.SINGLE, "profile": "adaptive"}
    same = fits(planned(*kimi(tmp_path / "a"), "8x96GiB", **single)).engine(S)
    other = fits(planned(*kimi(tmp_path / "b", models.KIMI_EAGLE3_LLAMA), "8x96GiB", **single)).engine(S)
    assert (same.cell.budget, same.cell.excess) == (71_424, 0)
    assert (other.cell.budget, other.cell.excess) == (71_424, 2_944)
    assert same.tokens is not None
    assert other.tokens == 9_995_631_872 // 74_368 // 256 * 256 < same.tokens
    assert other.budget == other.tokens * 71_424
    assert other.headroom == other.fixed.headroom + other.tokens * 2_944


def test_fp8_halves_a_token(tmp_path: FilePath) -> None:
    plan = fits(
        planned(
            *kimi(tmp_path), "8x96GiB", profile="adaptive", placement=Placement.SINGLE, kv_dtype="fp8_e4m3"
        )
    )
    assert plan.engine(S).cell.total == 35_136 + 576


def test_smollm2_on_one_card(tmp_path: FilePath) -> None:
    """24 GiB = 24576 M. Below 60 GiB there is no least headroom: baseline 1792 + 3072 + 1024 M, table
    4 x 129 x 8200 = 4,231,200 B; speculative 3200 + 3072 + 1024 M, table 4 x 33 x 8200 = 1,082,400 B.
    Left: 24576 - 1024 - 3072 - 5888 - 7296 = 7296 M = 7,650,410,496 B less tables, twice 269,030,016 x 1.04 =
    279,791,217 B and a draft of 31e6 x 1.04 = 32,240,000 B: 7,053,274,462 B.
    A token: 30 layers x 3 heads x 128 x 2 B = 23,040 B, with the draft's layer 23,808 B.
    """
    target = shape(tmp_path, "smol", models.SMOLLM2, models.SMOLLM2_BYTES)
    draft = shape(tmp_path, "head", {**models.SMOLLM2, "num_hidden_layers": 1}, 31_000_000)
    plan = fits(planned(target, draft, "1x24GiB", tp=1, context=8192))
    assert plan.engine(S).fixed.weights == 279_791_217
    assert (plan.engine(S).cell.total, plan.engine(B).cell.total) == (23_808, 23_040)
    assert plan.engine(S).tokens == 7_053_274_462 // 5 // 23_808 // 256 * 256 == 59_136
    assert plan.engine(B).tokens == (7_053_274_462 - 7_053_274_462 // 5) // 23_040 // 256 * 256 == 244_736


@pytest.mark.parametrize(("tp", "heads"), [(1, 8), (2, 4), (4, 2), (8, 1), (16, 1)])
def test_heads_are_divided_and_then_replicated(tmp_path: FilePath, tp: int, heads: int) -> None:
    target = shape(tmp_path, "llama", models.LLAMA_70B, models.LLAMA_70B_BYTES)
    assert target.attention.layer_bytes(tp, 2) == heads * 256 * 2
