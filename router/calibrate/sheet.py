"""A table as text, for a page and for a terminal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table.

    Attributes:
        texts: how many of the first columns are text; the others are numbers.
        marked: rows that must not be overlooked: cells that must not be used.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int = 1
    note: str = ""
    marked: frozenset[int] = frozenset()
