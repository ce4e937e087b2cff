"""The closed vocabulary: every label value, header value and reason that the router may utter.

Nothing a stranger sends ever becomes one of these, so metric series stay bounded.
"""

from __future__ import annotations

from enum import StrEnum


class Path(StrEnum):
    """One of the two ways a request can be served."""

    SPECULATIVE = "speculative"
    BASELINE = "baseline"

    @property
    def other(self) -> Path:
        """The path that is not this one."""
        return Path.BASELINE if self is Path.SPECULATIVE else Path.SPECULATIVE


class Placement(StrEnum):
    """Where the engines of a pair run."""

    SHARED = "shared"  # both on the same GPUs
    SEPARATE = "separate"  # each has its own
    SINGLE = "single"  # a pair with one engine


class Outcome(StrEnum):
    """How a lease ends. Every lease ends with exactly one of these."""

    OK = "ok"
    FAILED = "failed"
    CANCELLED = "cancelled"  # the client left
    REJECTED = "rejected"  # the router refused before an engine was asked


class DecisionReason(StrEnum):
    """Why a request went to its path."""

    POLICY = "policy"
    PINNED = "pinned"
    CLASS = "class"
    HEADER = "header"
    AFFINITY = "affinity"
    FAILOVER = "failover"
    PROBE = "probe"
    RETRY = "retry"
    SINGLE = "single"


class SwitchReason(StrEnum):
    """Why the active path changed."""

    HIGH = "high"
    LOW = "low"
    FAILOVER = "failover"
    RECOVERED = "recovered"
    PIN = "pin"
    UNPIN = "unpin"
    DEGRADED = "degraded"


class Sign(StrEnum):
    """What speaks against speculation that looks healthy; see `router.core.degraded`."""

    ACCEPT_LENGTH = "accept_length"
    PREFIX_CACHE = "prefix_cache"
    SLOW = "slow"


class Rejection(StrEnum):
    """Why the router refused a request by itself."""

    AUTH = "auth"
    SIZE = "size"
    JSON = "json"
    ROUTE = "route"
    QUEUE_FULL = "queue_full"
    QUEUE_TIMEOUT = "queue_timeout"
    BODY_MEMORY = "body_memory"
    NO_ENGINE = "no_engine"
    DRAIN = "drain"


class BreakerState(StrEnum):
    """State of an engine's circuit breaker, in the electrical sense: open lets nothing through."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"

    @property
    def code(self) -> int:
        """Value of the `breaker_state` gauge, numbered as in SGLang's gateway (`smg_worker_cb_state`)."""
        return {"closed": 0, "open": 1, "half_open": 2}[self.value]
