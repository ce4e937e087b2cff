"""Unmodified SDKs make the same of the router as of its engine: answers, streams, errors, aborts."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from router.core.words import Path
from tests.clients import install
from tests.clients.stage import HERE, Stage, python

SDKS = ("openai_sync", "openai_async", "openai_node", "langchain_openai_chat", "litellm_sdk", "anthropic_sdk")
CASES: dict[str, dict[str, Any]] = json.loads((HERE / "cases.json").read_text())


@pytest.mark.parametrize("sdk", SDKS)
def test_an_sdk_does_not_notice_the_router(sdk: str, engines_and_routers: Stage) -> None:
    stage = engines_and_routers
    cancelled = {path: stage.cancelled(path) for path in Path}
    seen = stage.observe(*command(sdk))
    for path in Path:
        direct, routed = seen[f"direct-{path}"], seen[f"routed-{path}"]
        assert {name: (direct[name], routed[name]) for name in direct if direct[name] != routed[name]} == {}
        assert direct.keys() == routed.keys()
        assert [name for name, found in direct.items() if not expected(name, found)] == [], direct
        aborts = [name for name in direct if name.startswith("abort")]
        assert stage.cancelled(path) - cancelled[path] == len(aborts)


def command(sdk: str) -> list[str]:
    """How that SDK's program is run."""
    if sdk != "openai_node":
        return python(sdk, "SETTINGS")
    node = shutil.which("node")
    if node is None or not (install.node_folder() / "node_modules" / "openai").is_dir():
        pytest.skip("Node's clients are not installed: they need node and npm")
    program = str(HERE / "node" / "openai.mjs")
    return [node, program, "SETTINGS", str(HERE / "cases.json"), str(install.node_folder())]


def expected(name: str, found: Any) -> bool:
    """Whether the engine itself answered as the case wants, so that no comparison is of two accidents."""
    if name.startswith("abort"):
        return bool(found["idle"])
    failed = isinstance(found, dict) and "error" in found
    wanted = CASES[name]["expect"] if name in CASES else "answer"
    return wanted == "any" or failed == (wanted == "error")
