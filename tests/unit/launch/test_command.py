"""The commands that a plan comes to."""

from __future__ import annotations

import json
from pathlib import Path as FilePath
from typing import Any

import pytest

from router.core.words import Path, Placement
from router.launch.flags import check_flags, shipped_versions
from router.launch.plan import Command, EngineExtras, PerPath, Plan, Ports, SecondStart, engine_command
from tests.unit.launch import models
from tests.unit.launch.planned import fits, planned, shape

S, B = Path.SPECULATIVE, Path.BASELINE
PINNED = (
    "--max-total-tokens",
    "--max-running-requests",
    "--context-length",
    "--chunked-prefill-size",
    "--cuda-graph-max-bs-decode",
    "--nccl-port",
    "--mem-fraction-static",
    "--host",
    "--port",
    "--served-model-name",
    "--extra-metric-labels",
    "--max-queued-requests",
)


def llama(tmp_path: FilePath, **wishes: Any) -> Plan:
    target = shape(tmp_path, "llama", models.LLAMA_70B, models.LLAMA_70B_BYTES)
    draft = shape(tmp_path, "eagle", models.LLAMA_EAGLE3, models.LLAMA_EAGLE3_BYTES)
    return fits(planned(target, draft, "8x96GiB", **wishes))


def command(plan: Plan, path: Path, fraction: float | SecondStart | None = None) -> Command:
    return engine_command(plan, path, fraction, Ports(30001, 29501), "/opt/python", "/run/x")


def value(found: Command, flag: str) -> str:
    assert found.argv.count(flag) == 1, flag
    return found.argv[found.argv.index(flag) + 1]


@pytest.mark.parametrize("path", list(Path))
def test_what_memory_depends_on_is_pinned(tmp_path: FilePath, path: Path) -> None:
    plan = llama(tmp_path)
    found = command(plan, path)
    assert found.argv[:3] == ("/opt/python", "-m", "sglang.launch_server")
    for flag in PINNED:
        assert value(found, flag)
    assert value(found, "--max-total-tokens") == str(plan.engine(path).tokens)
    assert value(found, "--max-running-requests") == {S: "32", B: "128"}[path]
    assert value(found, "--cuda-graph-max-bs-decode") == value(found, "--max-running-requests")
    assert value(found, "--context-length") == "32768"
    assert json.loads(value(found, "--extra-metric-labels")) == {"path": path.value}
    assert {"--enable-metrics", "--sleep-on-idle"} < set(found.argv)
    assert found.env["SGLANG_TIMEOUT_KEEP_ALIVE"] == "75"


@pytest.mark.parametrize("version", ["0.5.16", "0.5.23"])
@pytest.mark.parametrize("profile", ["eagle3-chain", "eagle3-tree", "ngram"])
def test_both_releases_know_every_flag(tmp_path: FilePath, profile: str, version: str) -> None:
    plan = llama(tmp_path, profile=profile, hardware="blackwell-pcie")
    for path in Path:
        assert check_flags(command(plan, path).argv, "/nowhere/python", version).problems == ()


def test_only_the_speculative_engine_drafts(tmp_path: FilePath) -> None:
    plan = llama(tmp_path)
    assert value(command(plan, S), "--speculative-draft-model-path") == str(tmp_path / "eagle")
    assert value(command(plan, S), "--speculative-num-draft-tokens") == "4"
    assert not any(word.startswith("--speculative") for word in command(plan, B).argv)


def test_a_draft_that_knows_a_shorter_context_is_allowed_to(tmp_path: FilePath) -> None:
    """EAGLE-3 heads often say 2048; without the variable SGLang raises ValueError while it loads them."""
    plan = llama(tmp_path)
    assert command(plan, S).env["SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"] == "1"
    assert "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN" not in command(plan, B).env
    assert any("knows 2048 tokens" in each for each in plan.warnings)


def test_a_measurement_replaces_the_forecast(tmp_path: FilePath) -> None:
    found = command(llama(tmp_path), B, SecondStart(0.75, 4096, 1))
    assert (value(found, "--mem-fraction-static"), value(found, "--max-total-tokens")) == ("0.7500", "4096")
    assert value(command(llama(tmp_path), B, 0.5), "--mem-fraction-static") == "0.5000"


def test_tiers_go_into_a_file_and_agree_with_the_draft_tokens(tmp_path: FilePath) -> None:
    plan = llama(tmp_path, profile="adaptive", placement=Placement.SINGLE)
    found = command(plan, S)
    (name,) = found.files
    assert value(found, "--speculative-adaptive-config") == name == "/run/x/adaptive.json"
    tiers = json.loads(found.files[name])
    assert tiers == {
        "1": {"candidate_steps": [3]},
        "8": {"candidate_steps": [0, 3]},
        "32": {"candidate_steps": [0]},
    }
    highest = max(step for tier in tiers.values() for step in tier["candidate_steps"])
    assert value(found, "--speculative-num-steps") == str(highest)
    assert value(found, "--speculative-num-draft-tokens") == str(highest + 1)
    assert value(found, "--max-running-requests") == "128"


def test_separate_engines_have_their_own_gpus(tmp_path: FilePath) -> None:
    plan = llama(tmp_path, placement=Placement.SEPARATE, tp=4)
    assert plan.engine(S).gpus == (0, 1, 2, 3)
    assert value(command(plan, S), "--base-gpu-id") == "0"
    assert value(command(plan, B), "--base-gpu-id") == "4"
    assert [engine.before for engine in plan.engines] == [0, 0]
    moved = llama(tmp_path, placement=Placement.SEPARATE, tp=2, base_gpu=PerPath(6, 0))
    assert (moved.engine(S).gpus, moved.engine(B).gpus) == ((6, 7), (0, 1))


def test_sm120_backends_and_variables(tmp_path: FilePath) -> None:
    shared = llama(tmp_path, hardware="blackwell-pcie")
    alone = llama(tmp_path, hardware="blackwell-pcie", placement=Placement.SEPARATE, tp=4)
    assert value(command(shared, B), "--attention-backend") == "flashinfer"
    assert "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE" not in command(shared, S).env
    assert command(alone, S).env["SGLANG_ENABLE_PCIE_IPC_ALLREDUCE"] == "1"
    kimi = fits(
        planned(
            shape(tmp_path, "kimi", models.KIMI_K25, models.KIMI_K25_BYTES),
            shape(tmp_path, "mla", models.KIMI_EAGLE3_MLA, models.KIMI_EAGLE3_BYTES),
            "8x96GiB",
            profile="adaptive",
            hardware="blackwell-pcie",
            placement=Placement.SINGLE,
        )
    )
    assert value(command(kimi, S), "--attention-backend") == "triton"


def test_additions_come_last_and_uneven_gpus_are_let_through(tmp_path: FilePath) -> None:
    extras = PerPath(EngineExtras(("--trust-remote-code",), {"A": "b"}), EngineExtras())
    plan = llama(tmp_path, extras=extras, allow_uneven=True)
    assert command(plan, S).argv[-1] == "--trust-remote-code"
    assert command(plan, S).env["A"] == "b"
    assert "A" not in command(plan, B).env
    assert command(plan, B).env["SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK"] == "0"


def test_kv_dtype_is_pinned_where_it_is_known(tmp_path: FilePath) -> None:
    assert "--kv-cache-dtype" not in command(llama(tmp_path), S).argv
    assert value(command(llama(tmp_path, kv_dtype="fp8_e4m3"), S), "--kv-cache-dtype") == "fp8_e4m3"
    scaled = {
        **models.LLAMA_70B,
        "quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}},
    }
    target = shape(tmp_path, "scaled", scaled, models.LLAMA_70B_BYTES)
    plan = fits(planned(target, None, "8x96GiB", profile="ngram"))
    assert value(command(plan, B), "--kv-cache-dtype") == "fp8_e4m3"
    assert plan.engine(B).cell.total == 20_480


def test_lists_of_two_releases_are_shipped() -> None:
    assert shipped_versions() == ["0.5.16", "0.5.23"]
