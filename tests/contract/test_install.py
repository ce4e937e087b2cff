"""Where a real engine cannot run, its installation says why."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from tests.sglang_cpu import install


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty home on a machine of another kind."""
    monkeypatch.setenv("SPEC_ROUTER_SGLANG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SPEC_ROUTER_SGLANG_OPTIONAL", raising=False)
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    return tmp_path / "home"


def test_an_unfit_machine_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert install.main() == 3
    told = capsys.readouterr().err
    assert "the pins are for Linux on x86_64" in told
    assert "riscv64" in told


def test_unless_the_engine_is_optional(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPEC_ROUTER_SGLANG_OPTIONAL", "1")
    assert install.main() == 0
    assert "will skip" in capsys.readouterr().err


def test_a_failed_installation_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*command: str) -> None:
        raise subprocess.CalledProcessError(7, command)

    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(install, "_python", lambda: "python3.11")
    monkeypatch.setattr(install, "_run", fail)
    assert install.main() == 1
    assert "exit code 7" in capsys.readouterr().err
    assert list(elsewhere.parent.iterdir()) == []


def test_what_is_there_is_used(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = elsewhere / "models" / "eagle3" / "model.safetensors"
    head.parent.mkdir(parents=True)
    head.touch()
    assert install.main() == 0
    assert capsys.readouterr().out == f"{elsewhere}\n"
