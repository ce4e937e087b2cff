"""A router carries no library that it has no use for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from router.cli.lean import without


def test_hidden_modules_cannot_be_imported_within_and_can_be_after() -> None:
    """One that is loaded already stays: hiding it would break who uses it."""
    with without("colorsys", "json"):
        import json

        with pytest.raises(ImportError):
            import colorsys  # noqa: F401
    assert json is sys.modules["json"]
    assert "colorsys" not in sys.modules


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
