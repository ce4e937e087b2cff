"""Wishes of requests."""

from __future__ import annotations

from router.core.classes import Wish
from router.core.words import DecisionReason, Path


def named(path: Path | None) -> Wish | None:
    """That of a request whose header names this path; none if it names none."""
    return Wish(path, DecisionReason.HEADER, only=False) if path else None
