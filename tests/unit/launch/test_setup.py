"""Commands as the launcher gives them."""

from __future__ import annotations

from pathlib import Path as FilePath

import pytest

from router.config.launch import Launch
from router.core.words import Path
from router.launch.record import Folder
from router.launch.setup import CAP, Keys, Setup, without_option
from tests.unit.launch import models
from tests.unit.launch.planned import fits, planned, shape

S, B = Path.SPECULATIVE, Path.BASELINE


def setup(tmp_path: FilePath, capped: bool = True, version: str = "0.5.23", **env: str) -> Setup:
    target = shape(tmp_path, "llama", models.LLAMA_70B, models.LLAMA_70B_BYTES)
    draft = shape(tmp_path, "eagle", models.LLAMA_EAGLE3, models.LLAMA_EAGLE3_BYTES)
    plan = fits(planned(target, draft, "8x96GiB"))
    launch = Launch.model_validate({"model": target.path, "tp": 8, "sglang": {"version": version}})
    keys = {S: Keys("client-key", "admin-key"), B: Keys()}
    return Setup(plan, (S, B), launch, keys, Folder(tmp_path), capped, env, lambda: 0.0)


def test_the_first_starts_with_the_plans_own_numbers(tmp_path: FilePath) -> None:
    own = setup(tmp_path)
    engine = own.plan.engine(S)
    chosen = own.choose(S, own.plan.gpus, ())
    assert (chosen.fraction, chosen.max_total_tokens) == (engine.fraction, engine.tokens)


def test_without_a_cap_only_the_cap_is_left_out(tmp_path: FilePath) -> None:
    own, free = setup(tmp_path), setup(tmp_path, capped=False)
    argv = own.command(B, None).argv
    assert free.command(B, None).argv == without_option(argv, CAP)
    assert len(free.command(B, None).argv) == len(argv) - 2
    assert without_option(("a", "b"), CAP) == ("a", "b")


def test_keys_are_given_to_the_engine_and_to_nobody_else(tmp_path: FilePath) -> None:
    own = setup(tmp_path)
    assert own.command(S, None).argv[-4:] == ("--api-key", "client-key", "--admin-api-key", "admin-key")
    assert "--api-key" not in own.command(B, None).argv
    assert "client-key" not in repr(own)


@pytest.mark.parametrize(("version", "value"), [("0.5.16", "0"), ("0.5.23", None)])
def test_health_makes_no_token_where_it_is_the_sign_of_readiness(
    tmp_path: FilePath, version: str, value: str | None
) -> None:
    own = setup(tmp_path, version=version)
    assert own.env(own.command(S, None)).get("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION") == value


def test_the_operators_environment_is_inherited_with_exceptions(tmp_path: FilePath) -> None:
    own = setup(
        tmp_path,
        version="0.5.16",
        HF_HOME="/hf",
        PROMETHEUS_MULTIPROC_DIR="/tmp/x",
        SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION="1",
        CUDA_DEVICE_ORDER="FASTEST_FIRST",
    )
    env = own.env(own.command(S, None))
    assert env["HF_HOME"] == "/hf"
    assert "PROMETHEUS_MULTIPROC_DIR" not in env
    assert env["SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"] == "1"
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
