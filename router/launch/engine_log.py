"""What SGLang's log says about a start (0.5.16 to 0.5.23). Pure: lines in, progress out.

Nothing here decides that an engine is ready. "The server is fired up" least of all: an engine whose port is
taken writes it too, for its warm-up request was answered by the program that has the port.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from enum import StrEnum

KEPT = 200
"""Lines that are remembered for explaining an end."""

MOST_NEWS = 10_000
"""Different lines that are told apart; a start has some hundreds."""

_STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]*\]\s*")
_DIGITS = re.compile(r"\d[\d.,:]*")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


class Stage(StrEnum):
    """What an engine is doing."""

    BEGINNING = "beginning"
    WEIGHTS = "weights"
    POOL = "KV pool"
    GRAPHS = "graphs"


@dataclass(frozen=True, slots=True)
class Progress:
    """`share` is from 0 to 1, or None where the log gives no number; `says` is the log's own figure."""

    stage: Stage
    share: float | None = None
    says: str = ""


_WEIGHTS = re.compile(r"(\d{1,3})% (?:Completed )?\|.*?(\d+/\d+)")
_POOL = re.compile(r"KV Cache is allocated\..*?#tokens: (\d+)")
_GRAPHS = re.compile(r"Capturing (?:batches|num tokens|sizes)\b.*?:\s+(\d{1,3})%.*?(\d+/\d+)")
_TEXTS = (
    ("Load weight begin", Stage.WEIGHTS),
    ("graph begin", Stage.GRAPHS),
)


def progress_of(line: str) -> Progress | None:
    """What a line says about the start, or None."""
    graphs = _GRAPHS.search(line)
    if graphs:
        return Progress(Stage.GRAPHS, int(graphs[1]) / 100, graphs[2])
    weights = _WEIGHTS.search(line) if "shards" in line else None
    if weights:
        return Progress(Stage.WEIGHTS, int(weights[1]) / 100, weights[2])
    pool = _POOL.search(line)
    if pool:
        return Progress(Stage.POOL, None, f"{pool[1]} tokens")
    return next((Progress(stage) for text, stage in _TEXTS if text.lower() in line.lower()), None)


class LogReader:
    """Reads one engine's log as it grows."""

    def __init__(self) -> None:
        self.last: deque[str] = deque(maxlen=KEPT)
        self.progress = Progress(Stage.BEGINNING)
        self._rest = ""
        self._seen: set[str] = set()

    def feed(self, text: str) -> bool:
        """More of the log; whether it tells of progress.

        Progress is a higher figure, or a line that was not there before in this form: a heartbeat that only
        counts seconds is none.
        """
        news = False
        # A progress bar rewrites its line with \r.
        parts = (self._rest + text).replace("\r", "\n").split("\n")
        self._rest = parts.pop()[-10_000:]
        for part in parts:
            line = _ESCAPES.sub("", part).rstrip()
            if line:
                news = self._line(line) or news
        bar = progress_of(self._rest)
        if bar is not None and bar != self.progress:  # it ends with \r only when it is rewritten
            self.progress, news = bar, True
        return news

    def _line(self, line: str) -> bool:
        found = progress_of(line)
        bar = found is not None and found.share is not None
        if bar and self.last and progress_of(self.last[-1]) is not None:
            self.last[-1] = line
        else:
            self.last.append(line)
        if found is not None and found != self.progress:
            self.progress = found
            return True
        form = _DIGITS.sub("0", _STAMP.sub("", line))
        if form in self._seen or len(self._seen) >= MOST_NEWS or bar:
            return False
        self._seen.add(form)
        return True

    def tail(self, lines: int) -> list[str]:
        """The last lines, what is unfinished included."""
        rest = _ESCAPES.sub("", self._rest).strip()
        return ([*self.last] + ([rest] if rest else []))[-lines:]
