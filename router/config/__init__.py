"""The configuration file: its schema, how it is read, and what is said when it is wrong."""

from __future__ import annotations

from router.config.errors import ConfigError, Problem
from router.config.load import load_config
from router.config.schema import Config
from router.config.view import placeholder_thresholds, resolved

__all__ = ["Config", "ConfigError", "Problem", "load_config", "placeholder_thresholds", "resolved"]
