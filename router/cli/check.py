"""`spec-router check`: is this configuration right, and what does it amount to?"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import yaml

from router.config import ConfigError, load_config, placeholder_thresholds, resolved

WRONG_CONFIG = 2


def check(config_path: Path, as_json: bool) -> int:
    """Print the resolved configuration, secrets masked, and return 0; or print the problems and return 2."""
    try:
        config = load_config(config_path, os.environ)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return WRONG_CONFIG
    shown = resolved(config)
    if as_json:
        print(json.dumps(shown, indent=2))
    else:
        print(yaml.safe_dump(shown, sort_keys=False), end="")
    if placeholder_thresholds(config):
        print(
            f"{config_path}: note: policy.high and policy.low are the shipped placeholders, not measured",
            file=sys.stderr,
        )
    return 0
