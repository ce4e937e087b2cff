"""What a wrong configuration raises, and how a wrong value is shown.

ValueError
+-- Invalid        one value is wrong; raised by the checks of single fields
+-- ConfigError    all problems of one file; the only error that leaves this package
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MASK = "**********"
_SHOWN_CHARACTERS = 60
_USER_INFO = re.compile(r"(?<=//).*@|^[^/]*:.*@", re.DOTALL)
_QUERY = re.compile(r"(//[^\s?#]*)[?#].*", re.DOTALL)


class Invalid(ValueError):
    """One value is not acceptable.

    `what` says why, `allowed` what would do, `at` leads from the checked place to the key that is to blame.
    """

    def __init__(self, what: str, allowed: str = "", at: tuple[str | int, ...] = ()) -> None:
        super().__init__(what)
        self.what = what
        self.allowed = allowed
        self.at = at


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to put right. `line` counts from 1; `path` is the key path, empty for the file as a whole."""

    file: str
    line: int | None
    path: str
    what: str
    value: str | None = None
    allowed: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        text = ": ".join(part for part in (place, self.path, self.what) if part)
        if self.value is not None:
            text += f", got {self.value}"
        return f"{text}; allowed: {self.allowed}" if self.allowed else text


class ConfigError(ValueError):
    """The configuration cannot be used. The text has one line per problem."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def printable(text: str) -> str:
    """The text with everything escaped that could break a line or a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(value: object) -> str:
    """A value as an operator may see it: one line, cut when long, credentials of a URL masked."""
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return _cut(str(value))
        case str():
            hidden = _QUERY.sub(rf"\1?{MASK}", _USER_INFO.sub(f"{MASK}@", value))
            return f'"{_cut(printable(hidden))}"'
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
    return "something else"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
