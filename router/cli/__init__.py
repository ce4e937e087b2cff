"""The command line: `spec-router`."""

from __future__ import annotations

from router.cli.main import main

__all__ = ["main"]
