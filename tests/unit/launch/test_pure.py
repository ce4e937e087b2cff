"""The plan's room is pure: it imports the vocabulary, itself, and nothing that reads, writes or asks."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOM = Path(__file__).parents[3] / "router" / "launch" / "plan"
ALLOWED = {
    *("__future__", "collections.abc", "dataclasses", "enum", "fractions", "json", "math", "typing"),
    "router.core.words",
}


@pytest.mark.parametrize("file", sorted(ROOM.glob("*.py")), ids=lambda file: file.name)
def test_imports(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            assert name in ALLOWED or name.startswith("router.launch.plan"), name
