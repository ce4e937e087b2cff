"""A router carries no library that it has no use for."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from router.cli.lean import without


def test_hidden_modules_cannot_be_imported_within_and_can_be_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is loaded already stays: hiding it would break who uses it."""
    name = "a_module_for_show"
    (tmp_path / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with without(name, "json"):
        assert importlib.import_module("json") is json
        with pytest.raises(ImportError):
            importlib.import_module(name)
    assert importlib.import_module(name).__name__ == sys.modules.pop(name).__name__


def test_serve_loads_neither_rich_nor_the_other_commands() -> None:
    """What is loaded stays for as long as the router runs: rich alone is 5 MB."""
    program = """
import sys
from router.cli import main as _
from router.cli.lean import without
with without("rich", "pygments"):
    import router.cli.serve
unwanted = ("rich", "pygments", "router.demo", "router.sim", "router.verify.ask", "router.operate",
            "router.replay", "router.bench", "router.launch", "numpy", "matplotlib")
print([name for name in unwanted if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
