"""matplotlib, which only those who want pictures have."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class PlotsMissing(Exception):
    """matplotlib is not installed."""


def figure_class() -> Any:
    """matplotlib's `Figure`, imported only when asked for. Raises PlotsMissing."""
    try:
        return import_module("matplotlib.figure").Figure
    except ImportError:
        raise PlotsMissing("plots need matplotlib: pip install 'spec-router[plots]'") from None
