"""Keys and values that are planned and that people may therefore have in their files already."""

from __future__ import annotations

UNBUILT_KEYS = frozenset[str]()
UNBUILT_VALUES = frozenset[tuple[str, str]]()
NOT_SUPPORTED = "is not supported by this version"
