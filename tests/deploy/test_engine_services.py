"""Cases B-33 and B-37: the engine services as processes, on GPUs in a file, with engines that are fake."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from router.config import load_config
from router.core.words import Path as EnginePath
from router.launch.plan import GpuMemory, Plan
from router.launch.request import deciding_high, read_request
from tests.deploy.container import Container
from tests.deploy.network import Network
from tests.deploy.test_configs import write_models
from tests.deploy.test_demo_stack import until
from tests.deploy.tools import DEPLOY, ROOT, composed, env_blocks, files_of
from tests.support.fake_gpus import FakeGpus

CARD = 97887 << 20
PORTS = {"speculative": 30001, "baseline": 30002}


class Machine:
    """Eight GPUs, the models of .env.example, and the services of one of its blocks.

    The configurations are the shipped ones, but memory has to stand still for a moment only.
    """

    def __init__(self, folder: Path, network: Network, block: dict[str, str], config: str) -> None:
        self.network = network
        self._folder = folder
        models = folder / "models"
        write_models(models)
        env = {**block, "SPEC_ROUTER_MODELS": str(models)}
        self._services = composed(files_of(env), env)["services"]
        self._configs = folder / "config"
        shutil.copytree(DEPLOY / "config", self._configs)
        for file in self._configs.glob("*.yaml"):
            quick = file.read_text().replace("settle: 20s", "settle: 200ms")
            file.write_text(quick.replace("  start:\n    stop", "  start:\n    settle: 200ms\n    stop"))
        self.gpus = FakeGpus(folder / "gpus.json").make([CARD] * 8)
        self._knobs = folder / "knobs.json"
        self._knobs.write_text("{}")
        self._config = config
        self.running: dict[str, Container] = {}

    def container(self, name: str) -> Container:
        """A service that has not been started."""
        service = dict(self._services[name])
        if name == "router":
            return Container(service, self.network, self._folder / name)
        service["volumes"] = [
            {**mount, "source": str(self._configs)} if mount["target"] == "/etc/spec-router" else mount
            for mount in service["volumes"]
        ]
        programs = self._folder / "bin"
        programs.mkdir(exist_ok=True)
        python = programs / "python3"
        fake = f'shift 2\ncd "{ROOT}"\nexec "{sys.executable}" -m tests.support.fake_engine "$@"'
        python.write_text(f"#!/bin/sh\n{fake}\n")
        python.chmod(0o755)
        extra = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "PYTHONPATH": f"{ROOT / 'tests/support/fake_nvml'}:{ROOT}",
            "FAKE_GPUS": str(self.gpus.file),
            "FAKE_ENGINE": str(self._knobs),
            "XDG_STATE_HOME": str(self._folder / "state"),
        }
        return Container(service, self.network, self._folder / name, extra=extra, isolated=False)

    def up(self, name: str) -> Container:
        """Start a service."""
        made = self.running[name] = self.container(name)
        made.start()
        return made

    def engine(self, name: str, address: str) -> Container:
        """Start an engine and wait for its health check, as compose does for the next one."""
        self.network.name(name, address)
        made = self.up(name)
        until(lambda: made.healthy() or made.code is not None, 60, f"{name} is healthy")
        assert made.code is None, made.log
        return made

    def plan(self) -> Plan:
        """What the configuration comes to on these GPUs when they are empty."""
        given = self._services["speculative"]["environment"]
        models = f"{self._folder / 'models'}/"
        env = {name: value.replace("/models/", models) for name, value in given.items()}
        config = load_config(self._configs / self._config, env)
        assert config.launch is not None
        gpus = tuple(GpuMemory(index, "NVIDIA Fake", CARD, CARD) for index in range(8))
        made = read_request(
            config.launch, config.pairs[0].placement, deciding_high(config), lambda: gpus
        ).plan()
        assert isinstance(made, Plan), made.reason
        return made

    def engines_take_what_is_planned(self) -> Plan:
        """The fake engines use six tenths of what is set aside for them."""
        plan = self.plan()
        knobs = {
            engine.path.value: {
                "context": int(engine.fixed.context * 0.8),
                "weights": int(engine.fixed.weights * 0.995),
                "draft": int(engine.fixed.draft * 0.995),
                "early": int(engine.fixed.headroom * 0.4),
                "late": int(engine.fixed.headroom * 0.2),
                "cell": engine.cell.budget,
                "draft_cell": engine.cell.excess,
            }
            for engine in plan.engines
        }
        self._knobs.write_text(json.dumps(knobs))
        return plan

    def starts(self, name: str) -> list[dict[str, Any]]:
        """Every start of an engine so far."""
        file = self._folder / "starts.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [row for row in rows if row["path"] == name]

    def is_up(self, name: str) -> None:
        """Wait until the launcher has looked at what its engine took, and found it as planned."""
        until(lambda: "up: KV pool of" in self.running[name].log, 30, f"{name} is up")


@pytest.fixture
def machine(request: pytest.FixtureRequest, network: Network, tmp_path: Path) -> Iterator[Machine]:
    """Of the block and configuration that the test names."""
    made = Machine(tmp_path, network, *request.param)
    try:
        yield made
    finally:
        for container in made.running.values():
            if container.code is None:
                container.stop(20)
        assert not [held for held in made.gpus.held() if held.start]


PAIR, SINGLE = env_blocks()
KIMI_TWICE = {**SINGLE, "COMPOSE_FILE": PAIR["COMPOSE_FILE"]}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("machine", [(PAIR, "router.yaml")], indirect=True)
def test_a_pair_comes_up_one_after_the_other_and_measures_at_each_start(machine: Machine) -> None:
    plan = machine.engines_take_what_is_planned()
    machine.network.name("router", "127.0.0.11")
    router = machine.up("router")
    until(router.healthy, 20, "the router's health check")
    assert machine.network.status("router", 8000, "/readyz") == 503

    machine.engine("speculative", "127.0.0.21")
    assert not machine.container("baseline").healthy()
    until(lambda: machine.network.status("router", 8000, "/readyz") == 200, 20, "a ready router")
    baseline = machine.engine("baseline", "127.0.0.22")
    for name in PORTS:
        machine.is_up(name)
        assert machine.starts(name)[0]["cap"] == plan.engine(EnginePath(name)).tokens
    first = machine.starts("speculative")[0]["fraction"]
    assert first == pytest.approx(plan.engine(EnginePath.SPECULATIVE).fraction, abs=0.001)

    # The same container again: the same pool, out of what is free now.
    assert baseline.stop() == 0, baseline.log
    machine.engine("baseline", "127.0.0.22")
    assert [start["cap"] for start in machine.starts("baseline")] == [
        plan.engine(EnginePath.BASELINE).tokens
    ] * 2
    # The first one is the second now: its fraction is of what the baseline has left.
    assert machine.running["speculative"].stop() == 0
    machine.engine("speculative", "127.0.0.23")
    again = machine.starts("speculative")[1]
    assert again["cap"] == plan.engine(EnginePath.SPECULATIVE).tokens
    assert again["fraction"] > 1.5 * first
    assert machine.network.status("router", 8000, "/readyz") == 200
    assert router.stop() == 0, router.log


@pytest.mark.parametrize("machine", [(KIMI_TWICE, "router.yaml")], indirect=True)
def test_a_pair_that_does_not_fit_exits_3_with_the_sum_in_its_log(machine: Machine) -> None:
    container = machine.up("speculative")
    assert container.process is not None
    assert container.process.wait(30) == 3
    assert "do not fit" in container.log
    assert "placement: single, profile: adaptive" in container.log
    assert machine.starts("speculative") == []


@pytest.mark.parametrize("machine", [(SINGLE, "single.yaml")], indirect=True)
def test_one_adaptive_engine_comes_up(machine: Machine) -> None:
    plan = machine.engines_take_what_is_planned()
    machine.network.name("router", "127.0.0.11")
    router = machine.up("router")
    machine.engine("speculative", "127.0.0.21")
    machine.is_up("speculative")
    assert machine.starts("speculative")[0]["cap"] == plan.engine(EnginePath.SPECULATIVE).tokens
    until(lambda: machine.network.status("router", 8000, "/readyz") == 200, 20, "a ready router")
    assert router.stop() == 0, router.log
