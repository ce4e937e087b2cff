"""Known ways in which engines end, from a table of patterns."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from router.launch.files import LaunchFileError, Reader, parse_yaml

FILE = "failures.yaml"


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A pattern of log text, and what it means; the meaning may name the pattern's groups."""

    pattern: re.Pattern[str]
    says: str


def known_failures() -> tuple[KnownFailure, ...]:
    """The shipped table, in the order in which it is tried."""
    text = (resources.files("router.launch") / "profiles" / FILE).read_text(encoding="utf-8")
    rows = parse_yaml(text, FILE)
    if not isinstance(rows, list):
        raise LaunchFileError(f"{FILE}: is not a list")
    readers = [Reader.of(FILE, row, ("match", "says")) for row in rows]
    return tuple(
        KnownFailure(re.compile(reader.text("match"), re.IGNORECASE), reader.text("says").strip())
        for reader in readers
    )


def explain(table: Sequence[KnownFailure], lines: Sequence[str]) -> str | None:
    """What the last lines of a log mean, or None if nobody has seen that yet."""
    text = "\n".join(lines)
    for known in table:
        found = known.pattern.search(text)
        if found:
            return known.says.format(**found.groupdict(default="?"))
    return None


def ending(code: int) -> str:
    """An exit status in words; negative is a signal, as `subprocess` counts."""
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = ": often the kernel, out of main memory" if -code == signal.SIGKILL else ""
    return f"killed by {name}{hint}"
