"""Configuration files made of a part that matters and a pair of engines that makes them whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from router.config import Config, ConfigError, load_config

PAIR = "pairs: [{speculative: {url: 'http://one:1'}, baseline: {url: 'http://two:2'}}]\n"
Load = Callable[..., Config]
Problems = Callable[..., list[str]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a text; where it has no pairs of its own, one is appended."""

    def run(text: str | bytes, env: Mapping[str, str] | None = None, pair: str = PAIR) -> Config:
        path = tmp_path / "c.yaml"
        path.write_bytes(text if isinstance(text, bytes) else (text + pair).encode())
        return load_config(path, env or {})

    return run


@pytest.fixture
def problems(load: Load, tmp_path: Path) -> Problems:
    """The problems of a text that must not load, one a line, without the folder."""

    def run(text: str | bytes, env: Mapping[str, str] | None = None, pair: str = PAIR) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(text, env, pair)
        lines = str(caught.value).replace(f"{tmp_path}/", "").split("\n")
        assert len(lines) == len(caught.value.problems), "one line a problem"
        return lines

    return run
