"""Gauges read at scrape time from what decides, so that they cannot differ from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from router.core.identity import Identity
from router.core.insight import insight
from router.core.ledger import Clock
from router.core.load import EngineLoad, Readings
from router.core.pair import Pair
from router.core.policy import ThresholdPolicy
from router.core.words import Path, Sign
from router.observe.metrics import PREFIX


@dataclass(frozen=True, slots=True)
class Watched:
    """A pair as others look at it: its decisions, and what its engines say of themselves."""

    pair: Pair
    readings: Mapping[Path, Readings]
    clock: Clock
    identity: Callable[[Path], Identity | None] = lambda path: None

    def load(self, path: Path) -> EngineLoad | None:
        """The fresh reading of the path's engine, if there is one."""
        readings = self.readings.get(path)
        return readings.latest() if readings else None

    def tokens_per_second(self, path: Path) -> float | None:
        """Tokens per second that the path's engine generates; None if not known."""
        readings = self.readings.get(path)
        return readings.tokens_per_second() if readings else None

    def accept_length(self) -> float | None:
        """Tokens per step of the speculative engine; None if not known."""
        readings = self.readings.get(Path.SPECULATIVE)
        return readings.accept_length() if readings else None


class StateCollector(Collector):
    """What the pair and its engines are doing at the moment of the scrape. What is not known is left out.

    Args:
        watched: the pair.
        version: of the router, for `build_info`.
    """

    def __init__(self, watched: Watched, version: str) -> None:
        self._watched = watched
        self._version = version

    def collect(self) -> Iterator[Metric]:
        """See `prometheus_client.registry.Collector`."""
        build = GaugeMetricFamily(
            f"{PREFIX}_build_info", "Always 1; the label says which version runs.", labels=("version",)
        )
        build.add_metric((self._version,), 1)
        yield build
        yield from self._pair_state()
        yield from self._engine_state()

    def _pair_state(self) -> Iterator[Metric]:
        pair, ledger = self._watched.pair, self._watched.pair.ledger
        paths = tuple(pair.engines)
        in_flight = {path.value: float(ledger.active_on(path)) for path in paths}
        yield self._by_path(
            "in_flight",
            "Requests that hold a lease: at an engine, or waiting in the router (path queue).",
            {**in_flight, "queue": float(ledger.queued)},
        )
        yield self._by_path(
            "active_path",
            "1 for the path that new requests take.",
            {path.value: float(path is pair.active_path) for path in paths},
        )
        active = CounterMetricFamily(
            f"{PREFIX}_active_path_seconds", "Time for which the path was active.", labels=("pair", "path")
        )
        for path in paths:
            active.add_metric((pair.name, path.value), pair.active_seconds(path))
        yield active
        if len(paths) > 1:
            yield self._degraded()
        mixed = CounterMetricFamily(
            f"{PREFIX}_mixed_seconds", "Time during which both engines had requests.", labels=("pair",)
        )
        mixed.add_metric((pair.name,), ledger.mixed_seconds())
        yield mixed
        problems = GaugeMetricFamily(
            f"{PREFIX}_wiring_problems",
            "Things wrong with how the engines are wired; /admin/status names them.",
            labels=("pair",),
        )
        problems.add_metric((pair.name,), len(pair.problems))
        yield problems
        yield from self._calibrated_state()
        if isinstance(pair.policy, ThresholdPolicy):
            bounds = {"high": float(pair.policy.high), "low": float(pair.policy.low)}
            yield self._family("threshold", "Requests in flight at which the path changes.", "bound", bounds)

    def _degraded(self) -> Metric:
        """Only speculation can be degraded. Every reason has its series from the start."""
        family = GaugeMetricFamily(
            f"{PREFIX}_degraded",
            "1 while the path does more harm than good for this reason, so that the other serves.",
            labels=("pair", "path", "reason"),
        )
        pair = self._watched.pair
        for sign in Sign:
            found = float(pair.harm.reason is sign)
            family.add_metric((pair.name, Path.SPECULATIVE.value, sign.value), found)
        return family

    def _calibrated_state(self) -> Iterator[Metric]:
        pair = self._watched.pair
        known = insight(pair.policy, pair.state, pair.ledger.n + pair.excess, self._watched.clock())
        if known is None:
            return
        bounds = {
            name: bound for name, bound in (("high", known.high), ("low", known.low)) if bound is not None
        }
        yield self._family("threshold", "Requests in flight at which the path changes.", "bound", bounds)
        yield self._family(
            "crossover_estimate",
            "Requests in flight from which on the baseline is faster; 0: from the first one.",
            "source",
            {"calibration": known.calibrated_crossover, "online": known.crossover},
        )
        yield self._by_path(
            "scale_factor",
            "How many times slower than calibrated the engine is.",
            {path.value: scale for path, scale in known.scales.items()},
        )
        yield self._single(
            "break_even_accept_length",
            "Accept length that speculation needs to tie at the present load.",
            known.break_even,
        )
        yield self._single(
            "accept_length_in_use",
            "Accept length that decides: the measured one, aged towards that of the calibration.",
            known.accept_length,
        )
        if known.accept_length_age is not None:
            yield self._single(
                "accept_length_age_seconds",
                "Time since an accept length was measured; it ages towards that of the calibration.",
                known.accept_length_age,
            )

    def _single(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=("pair",))
        family.add_metric((self._watched.pair.name,), value)
        return family

    def _engine_state(self) -> Iterator[Metric]:
        watched, pair = self._watched, self._watched.pair
        now = watched.clock()
        yield self._by_path(
            "breaker_state",
            "Circuit breaker of the engine: 0 closed, 1 open, 2 half open.",
            {path.value: engine.breaker.state(now).code for path, engine in pair.engines.items()},
        )
        yield self._by_path(
            "engine_up",
            "1 if the engine was seen alive and nothing speaks against it.",
            {path.value: float(engine.up(now)) for path, engine in pair.engines.items()},
        )
        yield self._by_path(
            "throughput_tokens_per_second",
            "Tokens per second that the engine generates, by its own numbers.",
            {path.value: watched.tokens_per_second(path) for path in pair.engines},
        )
        loads = {path: load for path in pair.engines if (load := watched.load(path))}
        yield self._by_path(
            "engine_running_requests",
            "Requests that the engine says it is running.",
            {path.value: load.running for path, load in loads.items()},
        )
        yield self._by_path(
            "engine_queued_requests",
            "Requests that the engine says wait in its queue.",
            {path.value: load.waiting for path, load in loads.items()},
        )
        yield self._by_path(
            "engine_token_usage",
            "Share of the engine's KV pool in use, 0 to 1.",
            {path.value: load.token_usage for path, load in loads.items()},
        )
        yield self._by_path(
            "in_flight_drift",
            "Requests that the router counts at the engine minus those that the engine says it holds.",
            {path.value: self._drift(path, load) for path, load in loads.items()},
        )
        yield self._by_path(
            "ghost_requests",
            "Requests that the engine holds beyond the router's for longer than its numbers lag.",
            {path.value: reconciler.excess() for path, reconciler in pair.reconcilers.items()},
        )
        accept = GaugeMetricFamily(
            f"{PREFIX}_accept_length", "Recent tokens per step of the speculative engine.", labels=("pair",)
        )
        if (length := watched.accept_length()) is not None:
            accept.add_metric((pair.name,), length)
        yield accept

    def _drift(self, path: Path, load: EngineLoad) -> float | None:
        held = load.in_flight()
        return None if held is None else self._watched.pair.ledger.active_on(path) - held

    def _by_path(self, name: str, text: str, values: Mapping[str, float | None]) -> Metric:
        return self._family(name, text, "path", values)

    def _family(self, name: str, text: str, label: str, values: Mapping[str, float | None]) -> Metric:
        family = GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=("pair", label))
        for key, value in values.items():
            if value is not None:
                family.add_metric((self._watched.pair.name, key), value)
        return family
