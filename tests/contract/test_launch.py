"""Two real engines through `spec-router launch`: ports, readiness, logs, drain; no GPU, so no split."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

import pytest
import yaml

from router.config.launch import Launch
from router.core.words import Path, Placement
from router.launch.plan import Plan
from router.launch.procfs import process_of
from router.launch.request import read_request
from tests.cases.kit.waiting import until
from tests.sglang_cpu import install
from tests.sglang_cpu.flags import Start
from tests.sglang_cpu.process import free_port
from tests.support.launching import ask

pytestmark = [pytest.mark.sglang, pytest.mark.slow, pytest.mark.timeout(1200)]

READY_SECONDS = 900.0
PROFILE = {
    "description": "as the tests start SGLang on CPUs",
    "algorithm": "EAGLE3",
    "draft_model": True,
    "steps": 2,
    "topk": 1,
    "draft_tokens": 3,
}
CPU = ["--device", "cpu", "--dtype", "float32", "--random-seed", "0"]
ATTENTION = [
    *("--attention-backend", "torch_native"),
    *("--prefill-attention-backend", "intel_amx"),
    *("--decode-attention-backend", "intel_amx"),
]


def smallest(section: dict[str, Any]) -> dict[str, Any]:
    """The section with the smallest GPU that a plan fits on: its pools are main memory here."""
    for size in range(4, 200):
        fitting = {**section, "gpus": f"1x{size * 128}MiB"}
        found = read_request(Launch.model_validate(fitting), Placement.SHARED, None).plan()
        if isinstance(found, Plan):
            return fitting
    raise AssertionError("no size fits")


def configuration(folder: FilePath) -> dict[str, Any]:
    """A pair on this machine's processors."""
    models = install.home() / "models"
    (folder / "profiles" / "speculation").mkdir(parents=True)
    (folder / "profiles" / "speculation" / "cpu.yaml").write_text(yaml.safe_dump(PROFILE))
    own = Start().variables({})
    environment = {name: text for name, text in own.items() if name != "CUDA_VISIBLE_DEVICES"}
    ports = {path.value: {"http": free_port(), "nccl": free_port()} for path in Path}
    section = {
        "model": str(models / "target"),
        "draft": str(models / "eagle3"),
        "tp": 1,
        "context": 2048,
        "concurrency": {"speculative": 4, "baseline": 4},
        "chunked_prefill": 256,
        "profile": "cpu",
        "profile_dir": str(folder / "profiles"),
        "ports": ports,
        "engines": {
            "speculative": {"args": [*CPU, *ATTENTION], "env": environment},
            "baseline": {"args": CPU, "env": environment},
        },
        "sglang": {"python": str(install.interpreter(install.home()))},
        "start": {"folder": str(folder / "state"), "stop": "60s"},
    }
    engines = {name: {"url": f"http://127.0.0.1:{each['http']}"} for name, each in ports.items()}
    return {
        "server": {"host": "127.0.0.1", "port": free_port()},
        "admin": {"port": free_port()},
        "pairs": [engines],
        "policy": {"high": 3, "low": 1},
        "launch": smallest(section),
    }


@pytest.fixture
def launcher(tmp_path: FilePath) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str], FilePath]]:
    """A configuration and its launcher; SIGTERM has ended it, or SIGKILL does."""
    if not install.installed():
        pytest.skip(f"SGLang is not installed: {install.obstacle() or '`make test-sglang` does it'}")
    config = configuration(tmp_path)
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(config))  # which is YAML without aliases
    said = tmp_path / "said.log"
    command = [sys.executable, "-m", "router", "launch", "-c", str(file), "--json"]
    with said.open("w") as err:
        process = subprocess.Popen(
            command,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        )
    yield config, process, said
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(90)
        except subprocess.TimeoutExpired:
            process.kill()
    process.communicate()


async def test_two_real_engines_are_started_used_and_ended(
    launcher: tuple[dict[str, Any], subprocess.Popen[str], FilePath], tmp_path: FilePath
) -> None:
    config, process, said = launcher
    data = config["server"]["port"]

    def ready() -> bool:
        assert process.poll() is None, said.read_text()
        answer = ask(data, "GET", "/readyz")
        return answer is not None and answer[0] == 200

    try:
        await until(ready, READY_SECONDS, "a ready router", every=0.5)
    except AssertionError as late:
        logs = [file.read_text(errors="replace")[-3000:] for file in (tmp_path / "state").glob("*.log")]
        raise AssertionError("\n".join((str(late), said.read_text(), *logs))) from None
    body = {"model": "target", "prompt": "a", "max_tokens": 4, "temperature": 0}
    answer = ask(data, "POST", "/v1/completions", body)
    assert answer is not None
    assert answer[0] == 200
    assert answer[1]["usage"]["completion_tokens"] == 4
    text = said.read_text()
    assert text.index("speculative: up") < text.index("baseline: started")
    assert "speculative: burnt in" in text
    assert "baseline: burnt in" in text
    members = {process.pid for process in _session_of_each(config, tmp_path)}
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    await until(lambda: process.poll() is not None, 120, "its end", every=0.1)
    assert process.returncode == 0, said.read_text()
    print(f"ended after {time.monotonic() - began:.1f} s")
    assert process.stdout is not None
    shown = json.loads(process.stdout.read())
    assert [engine["path"] for engine in shown["engines"]] == ["speculative", "baseline"]
    for engine in shown["engines"]:
        assert engine["pool_tokens"] == pytest.approx(
            engine["max_total_tokens"] or engine["pool_tokens"], rel=0.02
        )
        assert engine["problems"] == []
    assert len(members) >= 4
    assert not [pid for pid in members if process_of(pid)]
    for ports in config["launch"]["ports"].values():
        assert ask(ports["http"], "GET", "/ready") is None


def _session_of_each(config: dict[str, Any], folder: FilePath) -> list[Any]:
    """All processes that the launcher has noted."""
    note = json.loads((folder / "state" / "state.json").read_text())
    pids = [pid for engine in note["engines"] for pid, _ in engine["members"]]
    return [found for pid in pids if (found := process_of(pid))]
