"""The two engines that a command works on: by URL or from a configuration."""

from __future__ import annotations

import os
from pathlib import Path as FilePath

from router.config import load_config
from router.config.fields import URL_FORM
from router.config.schema import Engine, Pair
from router.core.words import Path
from router.verify.ask import Target

KEY_VARIABLE = "SPEC_ROUTER_ENGINE_API_KEY"


class BadInput(Exception):
    """The command cannot be carried out as it was given."""


def find_targets(config: FilePath, speculative: str | None, baseline: str | None) -> tuple[Target, Target]:
    """Speculative and baseline engine; the configuration is read unless both URLs are given.

    With URLs the key comes from the environment.

    Raises:
        BadInput: an engine is missing, or a URL cannot be used.
        ConfigError: the configuration cannot be used.
    """
    urls = {Path.SPECULATIVE: speculative, Path.BASELINE: baseline}
    if any(urls.values()):
        missing = [path for path, url in urls.items() if not url]
        if missing:
            raise BadInput(f"--{missing[0]} is missing; allowed: both URLs, or none and a configuration")
        key = os.environ.get(KEY_VARIABLE) or None
        one, other = (Target(path, _checked(path, url or ""), key) for path, url in urls.items())
        return one, other
    found = configured(load_config(config, os.environ).pairs[0])
    if len(found) != 2:
        raise BadInput(f"{config}: the pair has one engine; there is nothing to compare")
    return found[0], found[1]


def configured(pair: Pair) -> list[Target]:
    """The engines of a pair."""
    engines = [(path, pair.engine(path)) for path in Path]
    return [_target(path, engine) for path, engine in engines if engine is not None]


def _checked(path: Path, url: str) -> str:
    try:
        return Engine.model_validate({"url": url}).url
    except ValueError:
        raise BadInput(f"--{path} is not a usable URL; allowed: {URL_FORM}") from None


def _target(path: Path, engine: Engine) -> Target:
    return Target(path, engine.url, engine.api_key.get_secret_value() if engine.api_key else None)
