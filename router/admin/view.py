"""What the admin port may look at; the composition root fills it in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from router.admin.operator import Operator
from router.observe.recent import Recent
from router.observe.state import Watched


@dataclass(frozen=True, slots=True)
class AdminView:
    """The running router.

    Attributes:
        version: of the router.
        watched: its pair.
        recent: recent figures of the pair's paths.
        ready: True if requests can be served now.
        draining: True once the router is shutting down.
        wall: seconds since the epoch, to tell when switches were.
        operator: changes what may be changed.
        decisions: the recent decisions as JSON.
    """

    version: str
    watched: Watched
    recent: Recent
    ready: Callable[[], bool]
    draining: Callable[[], bool]
    wall: Callable[[], float]
    operator: Operator
    decisions: Callable[[], bytes]
