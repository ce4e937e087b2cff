"""The configurations in containers: valid, in agreement with the compose files, and planned as promised."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from router.config import load_config
from router.core.words import Placement
from router.demo.plan import make_plan
from router.sim import load_profile
from tests.deploy.tools import DEPLOY, ROOT, composed, env_blocks, files_of
from tests.unit.launch import models

CONFIGS = sorted((DEPLOY / "config").glob("*.yaml"))
KEYED = {"SPEC_ROUTER_ENGINE_KEY": "a-key"}


def spec_router(*words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the command with these variables only."""
    return subprocess.run(
        [sys.executable, "-m", "router", *words],
        cwd=ROOT,
        env={"PATH": os.defpath, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("config", CONFIGS, ids=lambda file: file.stem)
def test_check_accepts(config: Path) -> None:
    done = spec_router("check", "-c", str(config), env=KEYED)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["router", "single", "separate", "demo"])
def test_an_open_admin_port_needs_the_token(name: str) -> None:
    config = str(DEPLOY / f"config/{name}.yaml")
    opened = {**KEYED, "SPEC_ROUTER_ADMIN_HOST": "0.0.0.0"}
    assert spec_router("check", "-c", config, env=opened).returncode == 2
    assert spec_router("check", "-c", config, env={**opened, "SPEC_ROUTER_ADMIN_TOKEN": "t"}).returncode == 0
    assert load_config(Path(config), KEYED).admin.allowed_hosts == ("router",)


def test_two_hosts_do_without_a_key_at_their_peril() -> None:
    for name in ("separate", "baseline"):
        assert spec_router("check", "-c", str(DEPLOY / f"config/{name}.yaml"), env={}).returncode == 2


def test_demo_has_the_watermarks_of_the_demo() -> None:
    plan, policy = make_plan(load_profile("strong")), load_config(DEPLOY / "config/demo.yaml", {}).policy
    assert (policy.high, policy.low, policy.dwell, policy.smoothing) == (
        plan.high,
        plan.low,
        plan.dwell,
        plan.smoothing,
    )


def test_services_get_every_variable_of_their_configuration(stacks: dict[str, Any]) -> None:
    for stack in stacks.values():
        for name, service in stack["services"].items():
            file = next((word for word in service.get("command") or [] if word.endswith(".yaml")), None)
            if file is None:
                continue
            text = (DEPLOY / "config" / Path(file).name).read_text()
            section = text if service["command"][0] == "launch" else text.partition("\nlaunch:")[0]
            wanted = set(re.findall(r"\$\{([A-Z_]+)", section))
            if service["command"][0] == "launch":
                wanted -= {"SPEC_ROUTER_ADMIN_HOST", "SPEC_ROUTER_ADMIN_TOKEN"}
            assert wanted <= service["environment"].keys(), name


def write_models(folder: Path) -> None:
    """The models of .env.example, without weights."""
    for name, config, size in (
        ("Llama-3.3-70B-Instruct", models.LLAMA_70B, models.LLAMA_70B_BYTES),
        ("EAGLE3-LLaMA3.3-Instruct-70B", models.LLAMA_EAGLE3, models.LLAMA_EAGLE3_BYTES),
        ("Kimi-K2.5", models.KIMI_K25, models.KIMI_K25_BYTES),
        ("kimi-k2.5-eagle3-mla", models.KIMI_EAGLE3_MLA, models.KIMI_EAGLE3_BYTES),
    ):
        models.write_checkpoint(folder / name, config, size)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """A folder with them."""
    write_models(tmp_path)
    return tmp_path


def planned(
    block: dict[str, str], checkpoints: Path, config: str, gpus: str
) -> subprocess.CompletedProcess[str]:
    """`spec-router plan` with what the speculative container gets."""
    given = composed(files_of(block), block)["services"]["speculative"]["environment"]
    env = {name: value.replace("/models/", f"{checkpoints}/") for name, value in given.items()}
    return spec_router("plan", "-c", f"deploy/config/{config}", env={**env, "SPEC_ROUTER_GPUS": gpus})


@pytest.mark.parametrize("gpus", ["8x97887MiB"])
def test_the_70b_block_fits_as_a_pair(checkpoints: Path, gpus: str) -> None:
    done = planned(env_blocks()[0], checkpoints, "router.yaml", gpus)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "placement shared" in done.stdout
    for figure in re.findall(r"([0-9]{3},[0-9]{3})", (ROOT / ".env.example").read_text()):
        assert figure.replace(",", "") in done.stdout


def test_the_70b_block_fits_four_h200(checkpoints: Path) -> None:
    done = planned({**env_blocks()[0], "SPEC_ROUTER_TP": "4"}, checkpoints, "router.yaml", "4xh200")
    assert done.returncode == 0, done.stdout + done.stderr


def test_kimi_fits_as_one_adaptive_engine(checkpoints: Path) -> None:
    done = planned(env_blocks()[1], checkpoints, "single.yaml", "8x97887MiB")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "placement single" in done.stdout
    assert "--speculative-adaptive" in done.stdout
    assert "--max-running-requests 128" in done.stdout


def test_kimi_as_a_pair_is_refused_with_the_sum(checkpoints: Path) -> None:
    pair = {**env_blocks()[1], "COMPOSE_FILE": "docker-compose.yml"}
    done = planned(pair, checkpoints, "router.yaml", "8x97887MiB")
    assert done.returncode == 3
    assert "do not fit" in done.stdout
    assert "placement: single, profile: adaptive" in done.stdout


def test_the_hosts_of_two_pools_fit(checkpoints: Path) -> None:
    block = {**env_blocks()[0], **KEYED, "SPEC_ROUTER_PROFILE": "eagle3-chain"}
    for config, algorithm in (("single.yaml", True), ("baseline.yaml", False)):
        done = planned(block, checkpoints, config, "8x97887MiB")
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("--speculative-algorithm" in done.stdout) is algorithm
        assert "--speculative-adaptive" not in done.stdout


def test_engines_and_router_of_two_hosts_agree() -> None:
    router = load_config(DEPLOY / "config/separate.yaml", KEYED)
    assert router.pairs[0].placement is Placement.SEPARATE
    for name, path in (("single", "speculative"), ("baseline", "baseline")):
        engine = load_config(DEPLOY / f"config/{name}.yaml", KEYED)
        assert getattr(engine.pairs[0], path) == getattr(router.pairs[0], path)
        assert engine.launch is not None
        assert engine.launch.host == "0.0.0.0"


def test_ports_and_hosts_agree_with_services_and_health_checks(stacks: dict[str, Any]) -> None:
    config = load_config(DEPLOY / "config/router.yaml", {})
    assert config.launch is not None
    for path in ("speculative", "baseline"):
        port = getattr(config.launch.ports, path).http
        assert getattr(config.pairs[0], path).url == f"http://{path}:{port}"
        assert str(port) in stacks["pair"]["services"][path]["healthcheck"]["test"]
    scraped = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    targets = {target for job in scraped for group in job["static_configs"] for target in group["targets"]}
    assert targets == {"router:29000", "speculative:30001", "baseline:30002"}
