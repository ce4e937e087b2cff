"""The answer of `GET /admin/status`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from router.admin.view import AdminView
from router.core.insight import insight
from router.core.pair import Pair, Pin
from router.core.policy import Switch, ThresholdPolicy
from router.core.sentences import why_active, why_switched
from router.core.words import Path
from router.observe.recent import Recent
from router.observe.state import Watched

SWITCHES_SHOWN = 50


def status_view(view: AdminView) -> dict[str, Any]:
    """The router's state as plain JSON values.

    Durations are seconds, `at` is seconds since the epoch, what is not known is null. `requests` and
    `tokens` count from the start, `excess` is what loads the engines beyond `n`; the quantiles are over the
    last minute or 500 requests. `degraded` is why speculation is left for doing harm.
    """
    watched = view.watched
    pair, now = watched.pair, watched.clock()
    to_wall = view.wall() - now
    return {
        "version": view.version,
        "draining": view.draining(),
        "pairs": [
            {
                "name": pair.name,
                "placement": pair.placement.value,
                "policy": _policy(pair, now),
                "active_path": pair.active_path.value,
                "since_seconds": round(now - pair.active_since, 3),
                "n": pair.ledger.n,
                "excess": pair.excess,
                "problems": [{"fault": each.fault.value, "text": each.text} for each in pair.problems],
                "why": _why(pair),
                "degraded": pair.harm.reason and pair.harm.reason.value,
                "pin": _pin(pair.pin, now),
                "queued": pair.ledger.queued,
                "mixed_seconds": round(pair.ledger.mixed_seconds(), 3),
                "paths": {path.value: _path(path, watched, view.recent, now) for path in pair.engines},
                "switches": [_switch(switch, to_wall) for switch in list(pair.switches)[-SWITCHES_SHOWN:]],
            }
        ],
    }


def _policy(pair: Pair, now: float) -> dict[str, Any]:
    policy = pair.policy
    threshold = policy if isinstance(policy, ThresholdPolicy) else None
    known = insight(policy, pair.state, pair.ledger.n + pair.excess, now)
    return {
        "kind": policy.kind,
        "high": threshold and threshold.high,
        "low": threshold and threshold.low,
        "dwell": threshold and threshold.dwell,
        "smoothing": threshold and threshold.smoothing,
        **({"calibrated": asdict(known)} if known else {}),
    }


def _why(pair: Pair) -> str:
    last = pair.switches[-1] if pair.switches else None
    return why_active(pair.policy, pair.state, last, pair.pin.reason if pair.pin else None)


def _pin(pin: Pin | None, now: float) -> dict[str, Any] | None:
    if pin is None:
        return None
    left = None if pin.until is None else round(max(0.0, pin.until - now), 1)
    return {"path": pin.path.value, "reason": pin.reason, "seconds_left": left}


def _path(path: Path, watched: Watched, recent: Recent, now: float) -> dict[str, Any]:
    engine = watched.pair.engines[path]
    load = watched.load(path)
    identity = watched.identity(path)
    figures = recent.figures(path)
    return {
        "active": watched.pair.ledger.active_on(path),
        "up": engine.up(now),
        "drained": engine.drained,
        "breaker": engine.breaker.state(now).value,
        "running": load and load.running,
        "waiting": load and load.waiting,
        "tokens_per_second": watched.tokens_per_second(path),
        "accept_length": watched.accept_length() if path is Path.SPECULATIVE else None,
        "ttft_p50": figures.ttft_p50,
        "ttft_p99": figures.ttft_p99,
        "requests": figures.requests,
        "tokens": figures.tokens,
        "engine": identity and asdict(identity),
    }


def _switch(switch: Switch, to_wall: float) -> dict[str, Any]:
    return {
        "at": round(switch.at + to_wall, 3),
        "from": switch.origin.value,
        "to": switch.target.value,
        "n": switch.n,
        "excess": switch.excess,
        "reason": switch.reason.value,
        "why": why_switched(switch),
    }
