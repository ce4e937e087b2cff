"""The programs these tests use, and what docker compose makes of the shipped files."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAIR = ("docker-compose.yml",)
SINGLE = (*PAIR, "deploy/docker-compose.single.yml")
TWO_HOSTS = (*PAIR, "deploy/docker-compose.two-hosts.yml")
DEMO = ("docker-compose.demo.yml",)
SECRETS = {"SPEC_ROUTER_ADMIN_TOKEN": "a-token", "GRAFANA_ADMIN_PASSWORD": "a-password"}
ADDRESSES = {
    "SPECULATIVE_ADDRESS": "10.0.0.1",
    "BASELINE_ADDRESS": "10.0.0.2",
    "SPEC_ROUTER_ENGINE_KEY": "a-key",
}
_MARK = re.compile(r"^# --- ", re.MULTILINE)
_SETTING = re.compile(r"^#?([A-Z_]+)=(.*)$", re.MULTILINE)


def tool(name: str) -> str:
    """A program of requirements.txt: where `make test-deploy` puts it, else on the PATH."""
    local = Path(sys.prefix) / "deploy/bin" / name
    found = str(local) if local.exists() else shutil.which(name)
    assert found, f"{name} is missing: make test-deploy installs it"
    return found


def compose_binary() -> str:
    """The binary itself: the package's script of the same name hides its exit status."""
    found = sorted(
        Path(tool("docker-compose")).resolve().parents[1].glob("lib/*/site-packages/compose/docker-compose")
    )
    return str(found[0]) if found else tool("docker-compose")


def compose(files: tuple[str, ...], env: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    """Run `docker compose -f ... COMMAND` with these variables only."""
    flags = [word for file in files for word in ("-f", file)]
    return subprocess.run(
        [compose_binary(), "--env-file", os.devnull, *flags, *command],
        cwd=ROOT,
        env={"PATH": os.defpath, "HOME": "/nonexistent", **env},
        capture_output=True,
        text=True,
        timeout=60,
    )


def composed(files: tuple[str, ...], env: dict[str, str]) -> dict[str, Any]:
    """The files merged and filled in, as docker compose would run them."""
    done = compose(files, env, "config", "--format", "json")
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def env_blocks() -> tuple[dict[str, str], dict[str, str]]:
    """The two worked blocks of .env.example with what stands above them and secrets filled in."""
    above, pair, single = _MARK.split((ROOT / ".env.example").read_text())
    common = {**dict(_SETTING.findall(above)), **SECRETS}
    return {**common, **dict(_SETTING.findall(pair))}, {**common, **dict(_SETTING.findall(single))}


def files_of(env: dict[str, str]) -> tuple[str, ...]:
    """What COMPOSE_FILE names."""
    return tuple(env["COMPOSE_FILE"].split(":"))
