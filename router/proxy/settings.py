"""What a request needs to know of the configuration and of the world; all of it handed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from router.core.admission import Admission, DrainRate
from router.core.affinity import Affinity
from router.core.classes import Rules
from router.core.events import Observer
from router.core.ledger import Clock
from router.core.pair import Pair
from router.core.words import Path
from router.proxy.abort import Aborter
from router.proxy.body import Peeker
from router.proxy.budget import BodyBudget
from router.proxy.keys import ClientKeys
from router.proxy.link import EngineLink
from router.proxy.rounds import Rounds
from router.proxy.trace import Tracer

# Seconds between two looks at a request's limits, at most.
TICK = 0.5


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits in seconds (0: none) and bytes. A reload replaces it whole; a request keeps its own.

    `tick` is how often the limits are looked at: it follows from the shortest of them.
    """

    max_body: int
    queue_timeout: float
    first_byte: float
    idle: float
    total: float
    client_body: float
    client_write: float
    retry_other: bool
    allow_path_header: bool
    inject_rid: bool
    keys: ClientKeys
    rules: Rules
    peeker: Peeker
    tick: float = field(init=False)

    def __post_init__(self) -> None:
        limits = (self.first_byte, self.idle, self.total, self.client_write)
        shortest = min((limit for limit in limits if limit), default=TICK)
        object.__setattr__(self, "tick", min(TICK, shortest / 4))


@dataclass(slots=True)
class Services:
    """Everything the data path works with; built once by the composition root.

    `settings`, `draining` and which engine stands for which path are all that changes while the router runs.
    """

    pair: Pair
    door: Admission
    drain_rate: DrainRate
    budget: BodyBudget
    engines: dict[Path, EngineLink]
    aborter: Aborter
    affinity: Affinity
    observer: Observer
    clock: Clock
    new_id: Callable[[], bytes]
    settings: Settings
    rounds: Rounds
    draining: bool = False
    tracer: Tracer | None = None
