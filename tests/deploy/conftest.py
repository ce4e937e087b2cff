"""Composed files once, and networks that end with their test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.network import Network
from tests.deploy.tools import ADDRESSES, DEMO, PAIR, SINGLE, TWO_HOSTS, composed, env_blocks

VARIANTS = {
    "pair": (PAIR, env_blocks()[0]),
    "single": (SINGLE, env_blocks()[1]),
    "two hosts": (TWO_HOSTS, {**env_blocks()[0], **ADDRESSES}),
    "demo": (DEMO, {}),
}


@pytest.fixture(scope="session")
def stacks() -> dict[str, dict[str, Any]]:
    """Every variant as docker compose would run it."""
    return {name: composed(files, env) for name, (files, env) in VARIANTS.items()}


@pytest.fixture(params=VARIANTS)
def stack(request: pytest.FixtureRequest, stacks: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """One variant after the other."""
    return stacks[request.param]


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """One for this test."""
    with Network(tmp_path) as made:
        yield made
