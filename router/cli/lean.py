"""Loading libraries without what they load for show.

structlog and httpx load rich and pygments where these are installed, for tracebacks and commands that a
router has no use for: 5 MB that it would hold for as long as it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def without(*names: str) -> Generator[None, None, None]:
    """Within this the modules count as not installed, unless they are loaded already."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
