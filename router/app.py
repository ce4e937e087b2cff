"""The composition root: the one place where the parts of a router are made and joined."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TextIO
from urllib.parse import urlsplit

import structlog
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from structlog.typing import FilteringBoundLogger

from router import __version__
from router.admin.app import build_admin
from router.admin.operator import Operator
from router.admin.view import AdminView
from router.config import Config, resolved
from router.config.schema import Engine, RoutingRule
from router.control.client import Endpoint, make_client
from router.control.monitor import EngineMonitor, Rhythm
from router.control.wiring import Wiring
from router.core.admission import Admission, DrainRate
from router.core.affinity import Affinity
from router.core.calibrated import CalibratedPolicy
from router.core.calibration import DEFAULT_FRACTIONS
from router.core.classes import Rule, Rules, When
from router.core.events import Observer
from router.core.health import BreakerRules, EngineHealth, HealthRules
from router.core.identity import Identity, Problem
from router.core.ledger import Clock, Ledger
from router.core.live import PathLive
from router.core.load import EngineLoad, Readings
from router.core.pair import Pair
from router.core.policy import Policy
from router.core.reconcile import Reconciler
from router.core.shadow import Shadow
from router.core.words import Path, Placement
from router.lifetime import Current, Port, Router
from router.observe.cost import MixedCost
from router.observe.decisions import DecisionLog
from router.observe.fanout import Fanout
from router.observe.logs import LogObserver
from router.observe.metrics import Metrics
from router.observe.process import watch_process
from router.observe.recent import Recent
from router.observe.shadow import ShadowMetrics
from router.observe.state import StateCollector, Watched
from router.observe.watch import HealthWatch
from router.policies import build_policy, build_threshold, doubts
from router.proxy.abort import Aborter
from router.proxy.body import Peeker
from router.proxy.budget import BodyBudget
from router.proxy.endpoint import DataPort
from router.proxy.keys import ClientKeys
from router.proxy.link import EngineLink
from router.proxy.settings import Services, Settings
from router.proxy.trace import Tracer
from router.server.listener import StartError, bind, build_server
from router.server.protocol import HeadLimits
from router.upstream.pool import Pool


def build_router(config: Config) -> Router:
    """A router ready to start; both ports are bound. Call it inside a running event loop.

    Raises:
        StartError: a port cannot be had, a file not be written, or an extra is missing.
    """
    clock = asyncio.get_running_loop().time
    log: FilteringBoundLogger = structlog.get_logger("router")
    pair_config = config.pairs[0]
    engines = {path: engine for path in Path if (engine := pair_config.engine(path))}
    readings = {path: Readings(clock) for path in engines}
    registry = CollectorRegistry()

    def accept_length() -> float | None:
        return readings[Path.SPECULATIVE].accept_length() if Path.SPECULATIVE in readings else None

    recent = Recent(clock, accept_length)
    metrics = Metrics(registry, pair_config.name, tuple(engines), accept_length)
    policy = build_policy(config.policy, pair_config.placement, tuple(engines))
    current = Current(config, policy, ShadowMetrics(registry, pair_config.name, log).on_switch)
    rules = partial(policy_rules, current)
    decisions = DecisionLog(pair_config.name, rules, clock, time.time, open_log(config.log.decisions))
    lines = LogObserver(log, pair_config.name, logging.getLogger("router").isEnabledFor)
    observer = Fanout((metrics, recent, decisions, lines), log)
    services = build_services(config, engines, clock, observer, policy, partial(measure, readings))
    services.pair.shadow = build_shadow(current, tuple(engines))
    services.pair.on_record = decisions.record
    services.aborter.on_abort = metrics.on_abort
    services.tracer = build_tracer(config)
    wiring = Wiring(
        services.pair, partial(cross, services, readings), log, partial(refit, services.pair, current)
    )
    watched = Watched(services.pair, readings, clock, wiring.identity)
    watch_process(registry, asyncio.get_running_loop())
    registry.register(StateCollector(watched, __version__))
    cost = MixedCost(watched, partial(mixed_fraction, services.pair))
    registry.register(cost)

    data_port = DataPort(services)
    view = AdminView(
        __version__,
        watched,
        recent,
        ready=lambda: services.pair.serving() and not services.draining,
        draining=lambda: services.draining,
        wall=time.time,
        operator=Operator(services.pair, lambda: current.reload, log),
        decisions=decisions.render,
    )
    admin_app = build_admin(
        view, registry, config.admin.token.get_secret_value(), config.admin.allowed_hosts, config.admin.host
    )
    watch = HealthWatch(services.pair, log)
    client = make_client()

    def on_probe() -> None:
        services.pair.evaluate()
        watch.check(clock())

    def on_load(configured: Path, load: EngineLoad | None) -> None:
        path = wiring.path_of(configured)
        if load is not None:
            services.pair.reconcilers[path].read(load)
            return
        services.pair.reconcilers[path].forget()
        services.affinity.forget(path)

    monitors = [
        EngineMonitor(
            Endpoint(engine.url, engine.api_key.get_secret_value() if engine.api_key else None),
            client,
            services.pair.engines[path],
            readings[path],
            rhythm(config),
            clock,
            asyncio.sleep,
            on_probe,
            partial(on_load, path),
            partial(wiring.hear, path),
            log.bind(path=path.value),
        )
        for path, engine in engines.items()
    ]
    return Router(
        services,
        data_port,
        _port(
            config,
            data_port,
            config.server.host,
            config.server.port,
            "data",
        ),
        _port(config, admin_app, config.admin.host, config.admin.port, "admin"),
        monitors,
        client,
        watch,
        cost,
        wiring,
        registry,
        current,
        log,
    )


def mixed_fraction(pair: Pair, path: Path) -> float:
    """Share of its speed that a path keeps while the other works: as calibrated, or else as usual."""
    if isinstance(pair.policy, CalibratedPolicy):
        return pair.policy.calibration.mixed_fraction(path)
    return DEFAULT_FRACTIONS[path] if pair.placement is Placement.SHARED else 1.0


def policy_rules(current: Current) -> dict[str, Any]:
    """What the policy in force can be built from again."""
    config = current.config
    pair = config.pairs[0]
    paths = [path.value for path in Path if pair.engine(path)]
    rules = resolved(config)["policy"]
    if current.unfit:
        rules |= {"kind": "threshold", "calibration": None}
    return {**rules, "placement": pair.placement.value, "paths": paths}


def open_log(name: str | None) -> TextIO | None:
    """The file that switches are appended to, if there is to be one.

    Raises:
        StartError: it cannot be written.
    """
    if name is None:
        return None
    try:
        return open(name, "a", encoding="utf-8")
    except OSError as error:
        raise StartError(
            f"log.decisions {name} cannot be written: {(error.strerror or '').lower()}"
        ) from None


def build_tracer(config: Config) -> Tracer | None:
    """What follows requests, if they are to be followed.

    Raises:
        StartError: OpenTelemetry is not installed.
    """
    tracing = config.tracing
    if tracing.endpoint is None:
        return None
    try:
        # Here, because only those who trace need to have it and to wait for its import.
        from router.observe.tracing import Tracing, otlp

        processor = otlp(tracing.endpoint)
    except ImportError as error:
        raise StartError(
            f"tracing.endpoint needs OpenTelemetry ({error}): pip install 'spec-router[tracing]'"
        ) from None
    return Tracing(processor, tracing.sample, __version__, config.pairs[0].name)


def build_services(
    config: Config,
    engines: Mapping[Path, Engine],
    clock: Clock,
    observer: Observer,
    policy: Policy,
    measure: Callable[[Path], PathLive],
) -> Services:
    """What the data path works with."""
    pair_config = config.pairs[0]
    drain_rate = DrainRate(clock)

    def on_close(_: object) -> None:
        drain_rate.record()
        door.pump()
        pair.evaluate()  # N has fallen: a switch back is due now and not with the next request

    reconcilers = {path: Reconciler(clock) for path in engines}
    ledger = Ledger(clock, on_close, lambda path, count: reconcilers[path].note(count))
    door = Admission(ledger, config.server.max_active, config.server.queue_size)
    pair = Pair(
        pair_config.name,
        pair_config.placement,
        {path: EngineHealth(*health_rules(config)) for path in engines},
        policy,
        ledger,
        clock,
        observer,
        reconcilers,
        config.server.max_active,
        measure,
    )
    return Services(
        pair,
        door,
        drain_rate,
        BodyBudget(config.server.body_memory),
        {path: engine_link(config, engine) for path, engine in engines.items()},
        Aborter(),
        Affinity(clock),
        observer,
        clock,
        lambda: secrets.token_hex(16).encode(),
        build_settings(config),
    )


def measure(readings: Mapping[Path, Readings], path: Path) -> PathLive:
    """What the engine of a path says of its speed now."""
    latest = found.latest() if (found := readings.get(path)) else None
    if found is None or latest is None:
        return PathLive()
    return PathLive(
        at=latest.at, tokens_per_second=found.tokens_per_second(), accept_length=latest.accept_length
    )


def cross(services: Services, readings: dict[Path, Readings]) -> None:
    """Let each of the two engines stand for the other's path, with all that is known of it."""
    for engine in services.pair.engines.values():
        engine.breaker.end_trial()  # its request will be accounted to the other engine
    for reconciler in services.pair.reconcilers.values():
        reconciler.forget()
    exchange(services.engines)
    exchange(services.pair.engines)
    exchange(readings)


def exchange(table: dict[Path, Any]) -> None:
    """Exchange the two paths' entries."""
    table[Path.SPECULATIVE], table[Path.BASELINE] = table[Path.BASELINE], table[Path.SPECULATIVE]


def apply_config(router: Router, config: Config) -> None:
    """Put `config` in force in a running router, as far as that is possible without a restart."""
    services, current = router.services, router.current
    paths = tuple(services.pair.engines)
    policy = build_policy(config.policy, services.pair.placement, paths)
    services.settings = build_settings(config)
    services.door.max_active = services.pair.max_excess = config.server.max_active
    services.door.queue_size = config.server.queue_size
    services.budget.limit = config.server.body_memory
    current.config, current.policy = config, policy
    services.pair.shadow = build_shadow(current, paths)
    breaker, probes = health_rules(config)
    for path, health in services.pair.engines.items():
        health.set_rules(breaker, probes)
        services.engines[path].pool.connect_timeout = config.timeouts.connect
    for monitor in router.monitors:
        monitor.rhythm = rhythm(config)
    router.wiring.judge()
    services.door.pump()
    router.evaluate()


def refit(pair: Pair, current: Current, told: Mapping[Path, Identity]) -> tuple[Problem, ...]:
    """Let the configured policy decide, or watermarks where its calibration is of other engines."""
    found = doubts(current.policy, told)
    current.unfit = bool(found)
    pair.policy = build_threshold(current.config.policy) if found else current.policy
    return found


def build_shadow(current: Current, paths: tuple[Path, ...]) -> Shadow | None:
    """The policy that looks on, if there is one."""
    rules, placement = current.config.policy.shadow, current.config.pairs[0].placement
    if rules is None or placement is Placement.SINGLE:
        return None
    return Shadow(build_policy(rules, placement, paths), current.shadowed)


def build_settings(config: Config) -> Settings:
    """The limits of a request."""
    timeouts = config.timeouts
    rules = Rules(tuple(routing_rule(rule) for rule in config.routing.rules))
    return Settings(
        max_body=config.server.max_body,
        queue_timeout=config.server.queue_timeout,
        first_byte=timeouts.first_byte,
        idle=timeouts.idle,
        total=timeouts.total,
        client_body=timeouts.client_body,
        client_write=timeouts.client_write,
        retry_other=config.retry.other_path > 0,
        allow_path_header=config.routing.allow_path_header,
        inject_rid=config.engine.inject_rid,
        keys=ClientKeys(key.get_secret_value() for key in config.server.api_keys),
        rules=rules,
        peeker=Peeker(rules.names),
    )


def routing_rule(rule: RoutingRule) -> Rule:
    """An operator's rule."""
    if rule.when.startswith(">"):
        return Rule(rule.field, When.ABOVE, rule.path, float(rule.when[1:]))
    return Rule(rule.field, When(rule.when), rule.path)


def health_rules(config: Config) -> tuple[BreakerRules, HealthRules]:
    """The rules by which an engine's health is judged."""
    breaker, health = config.breaker, config.health
    return (
        BreakerRules(breaker.failure_threshold, breaker.success_threshold, breaker.open_for),
        HealthRules(health.failure_threshold, health.success_threshold),
    )


def engine_link(config: Config, engine: Engine) -> EngineLink:
    """The way to an engine."""
    parts = urlsplit(engine.url)
    host, port = parts.hostname or "", parts.port or 80
    return EngineLink(
        Pool(host, port, connect_timeout=config.timeouts.connect),
        parts.netloc.encode(),
        _secret(engine.api_key),
        _secret(engine.admin_api_key),
    )


def rhythm(config: Config) -> Rhythm:
    """How often engines are probed."""
    ready, deep = config.health.ready, config.health.deep
    return Rhythm(ready.interval, ready.timeout, deep.interval, deep.timeout)


def _port(config: Config, app: Any, host: str, port: int, what: str) -> Port:
    timeouts = config.timeouts
    server = build_server(app, keep_alive=timeouts.keep_alive, head=HeadLimits(timeouts.client_header))
    return Port(server, bind(host, port, what))


def _secret(value: SecretStr | None) -> bytes | None:
    return value.get_secret_value().encode() if value else None
