"""Which engine holds a stored response of `/v1/responses`, learnt from the answers that passed.

An engine keeps responses in its memory until it ends; the other one knows nothing of them.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable

from router.core.ledger import Clock
from router.core.scan import Scanner
from router.core.words import Path

# About 4 MiB when full.
REMEMBERED = 16_384
# Seconds; a conversation that rests longer is asked of the active path.
KEPT_FOR = 24 * 3600.0

# The id stands in the first event, or among the first fields of a whole answer. In a string its quotes
# would be escaped, so text cannot fake it; SGLang finds no response by an id of another form.
ID_LOOK = 4096
_ID = re.compile(rb'"id"\s*:\s*"(resp_[A-Za-z0-9_.-]{1,128})"')


class Affinity:
    """Paths by response id; the oldest is forgotten first.

    Args:
        clock: monotonic seconds.
        size: ids remembered at most.
        kept_for: seconds after which an id is forgotten.
    """

    def __init__(self, clock: Clock, size: int = REMEMBERED, kept_for: float = KEPT_FOR) -> None:
        self._clock = clock
        self._size = size
        self._kept_for = kept_for
        self._known: OrderedDict[str, tuple[Path, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def learn(self, response_id: str, path: Path) -> None:
        """The engine of `path` holds this response."""
        self._known[response_id] = (path, self._clock() + self._kept_for)
        self._known.move_to_end(response_id)
        while len(self._known) > self._size:
            self._known.popitem(last=False)

    def find(self, response_id: str) -> Path | None:
        """The path whose engine holds the response, as far as is known."""
        path, until = self._known.get(response_id, (None, 0.0))
        if path is not None and self._clock() >= until:
            del self._known[response_id]
            return None
        return path

    def forget(self, path: Path) -> None:
        """The engine of `path` ended, and what it held with it."""
        for response_id in [known for known, (holder, _) in self._known.items() if holder is path]:
            del self._known[response_id]


class ResponseScanner(Scanner):
    """A scanner that also finds the response's id, before the client can have seen it.

    Args:
        streamed: the answer is an event stream.
        on_id: called once, with the id.
    """

    __slots__ = ("_head", "_on_id", "_searching")

    def __init__(self, *, streamed: bool, on_id: Callable[[str], None]) -> None:
        super().__init__(streamed=streamed)
        self._on_id = on_id
        self._head = b""
        self._searching = True

    def feed(self, data: bytes) -> None:
        """See `Scanner.feed`."""
        if self._searching:
            self._head += data[: ID_LOOK - len(self._head)]
            found = _ID.search(self._head)
            if found or len(self._head) >= ID_LOOK:
                self._searching = False
                self._head = b""
            if found:
                self._on_id(found[1].decode())
        super().feed(data)
