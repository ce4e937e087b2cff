"""The Dockerfiles, as far as they can be judged without an engine that builds them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.tools import DEPLOY, ROOT, tool

FILES = sorted(DEPLOY.glob("*.Dockerfile"))


def instructions(file: Path) -> list[tuple[str, str]]:
    """Instruction and arguments, continuation lines joined."""
    text = re.sub(r"\\\n", " ", file.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.strip().partition(" ") for line in lines)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_hadolint_has_nothing_to_say(file: Path) -> None:
    done = subprocess.run([tool("hadolint"), str(file)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_signals_reach_the_process_and_health_needs_no_shell(file: Path) -> None:
    found = dict(instructions(file))
    assert json.loads(found["ENTRYPOINT"])[0].endswith("spec-router")
    json.loads(found["CMD"])
    check = json.loads(found["HEALTHCHECK"].partition("CMD ")[2])
    assert check[0].endswith("python")
    assert "curl" not in file.read_text()


def test_the_router_is_nobody_in_particular() -> None:
    found = instructions(DEPLOY / "router.Dockerfile")
    assert dict(found)["USER"] == "10001:10001"
    bases = [rest.split()[0] for word, rest in found if word == "FROM"]
    assert len(bases) == 2
    assert all(re.fullmatch(r"python:3\.\d+-slim-bookworm", base) for base in bases)


def test_the_engine_is_built_on_the_image_that_is_asked_for() -> None:
    found = instructions(DEPLOY / "engine.Dockerfile")
    assert found[0] == ("ARG", "SGLANG_IMAGE=lmsysorg/sglang:v0.5.23")
    assert found[1] == ("FROM", "${SGLANG_IMAGE}")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_copied_exists_and_is_not_ignored(file: Path) -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for word, rest in instructions(file):
        if word == "COPY" and "--from=" not in rest:
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert source in kept, source


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_its_installation_works_from_what_is_copied(file: Path, tmp_path: Path) -> None:
    """COPY and the RUN that installs, with /opt/spec-router and /src below a temporary folder."""
    prefix, source = tmp_path / "opt", tmp_path / "src"
    source.mkdir()
    context = source / "src" if "engine" in file.stem else source
    context.mkdir(exist_ok=True)
    for word, rest in instructions(file):
        if word == "COPY" and "--from=" not in rest and "healthcheck" not in rest:
            for name in rest.split()[:-1]:
                subprocess.run(["cp", "-r", str(ROOT / name), str(context)], check=True)
    command = next(rest for word, rest in instructions(file) if word == "RUN" and "venv" in rest)
    command = command.replace("/opt/spec-router", shlex.quote(str(prefix)))
    path = f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}"
    subprocess.run(["sh", "-ec", command], cwd=source, env={**os.environ, "PATH": path}, check=True)
    (tmp_path / "elsewhere").mkdir()
    for words in (["--version"], ["launch", "--help"], ["check", "-c", str(DEPLOY / "config/demo.yaml")]):
        done = subprocess.run(
            [str(prefix / "bin/spec-router"), *words],
            cwd=tmp_path / "elsewhere",
            capture_output=True,
            text=True,
            env={"PATH": os.defpath},
        )
        assert done.returncode == 0, done.stderr
    asked = (
        "from router.launch.gpus import gpus_by_hand; gpus_by_hand('8xh200')"  # reads a file of the package
    )
    nvml = "; import pynvml" if "engine" in file.stem else ""
    subprocess.run([str(prefix / "bin/python"), "-c", asked + nvml], cwd=tmp_path / "elsewhere", check=True)
