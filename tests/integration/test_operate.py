"""`spec-router status, pin, unpin, drain, reload, explain` against a running router."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path as File

import pytest
import yaml

from router.core.words import Path
from tests.cases.kit.router import RouterProcess
from tests.soak.engines import EngineProcess

TOKEN = "operate-test-token"


def spec_router(*arguments: str, router: RouterProcess | None = None) -> subprocess.CompletedProcess[str]:
    """One command, to its end."""
    where = ["--admin", f"http://127.0.0.1:{router.admin_port}"] if router else []
    command = [sys.executable, "-m", "router", *arguments, *where]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
async def router(tmp_path: File) -> AsyncIterator[RouterProcess]:
    engines = [EngineProcess(path) for path in Path]
    config = {"admin": {"token": TOKEN}, "log": {"decisions": str(tmp_path / "decisions.jsonl")}}
    made = RouterProcess(tmp_path, engines[0].url, engines[1].url, config)
    try:
        for engine in engines:
            await engine.start()
        await made.start()
        yield made
    finally:
        made.kill()
        for engine in engines:
            engine.kill()


async def test_an_operators_session(router: RouterProcess, tmp_path: File) -> None:
    token = ("--token", TOKEN)
    shown = spec_router("status", router=router)
    assert shown.returncode == 0
    assert "New requests go to speculative" in shown.stdout
    refused = spec_router("pin", "baseline", "--reason", "test", router=router)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "admin token" in refused.stderr
    assert spec_router("pin", "baseline", "--reason", "test", *token, router=router).returncode == 0
    pair = json.loads(spec_router("status", "--json", router=router).stdout)["pairs"][0]
    assert (pair["active_path"], pair["pin"]["reason"]) == ("baseline", "test")
    assert json.loads(spec_router("unpin", *token, router=router).stdout) == {"unpinned": True}
    assert spec_router("drain", "speculative", *token, router=router).returncode == 0
    assert "drained" in spec_router("status", router=router).stdout
    assert spec_router("drain", "speculative", "--undo", *token, router=router).returncode == 0
    config = yaml.safe_load(router.config_file.read_text())
    config["policy"]["high"] = 300
    router.config_file.write_text(yaml.safe_dump(config))
    assert json.loads(spec_router("reload", *token, router=router).stdout) == {"reloaded": True}
    assert (await router.status())["pairs"][0]["policy"]["high"] == 300
    explained = spec_router("explain", str(tmp_path / "decisions.jsonl"))
    assert explained.returncode == 0, explained.stderr
    assert "4 of 4 switches made again" in explained.stdout
    _forge(tmp_path / "decisions.jsonl")
    forged = spec_router("explain", str(tmp_path / "decisions.jsonl"), "--json")
    assert forged.returncode == 1
    assert json.loads(forged.stdout)["reproduced"] is False


def _forge(log: File) -> None:
    """Give the first recorded switch another target than the inputs make."""
    lines = log.read_text().splitlines()
    record = json.loads(lines[0])
    record["seen"]["pin"] = None
    log.write_text("\n".join([json.dumps(record), *lines[1:]]) + "\n")


def test_nobody_there() -> None:
    asked = spec_router("status", "--admin", "http://127.0.0.1:9")
    assert asked.returncode == 1
    assert asked.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"wall": 1}'])
def test_a_log_that_is_none(tmp_path: File, text: str) -> None:
    log = tmp_path / "log"
    log.write_text(text + "\n")
    read = spec_router("explain", str(log))
    assert read.returncode == 2
    assert "line 1" in read.stderr
