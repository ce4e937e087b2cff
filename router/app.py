"""The composition root: the one place where the parts of a router are made and joined."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import httpx
import structlog
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from router import __version__
from router.admin.app import build_admin
from router.admin.operator import Operator
from router.admin.view import AdminView
from router.config import Config
from router.config.schema import Engine
from router.control.client import Endpoint, make_client
from router.control.monitor import EngineMonitor
from router.control.wiring import Wiring
from router.core.load import EngineLoad, Readings
from router.core.pair import Pair
from router.core.words import Path
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
from router.parts import (
    build_services,
    build_settings,
    build_shadow,
    build_tracer,
    cross,
    health_rules,
    mixed_fraction,
    open_log,
    policy_rules,
    refit,
    rhythm,
)
from router.policies import build_policy
from router.proxy.endpoint import DataPort
from router.proxy.settings import Services
from router.server.listener import bind, build_server
from router.server.protocol import HeadLimits
from router.thrift import Measure


def build_router(config: Config) -> Router:
    """A router ready to start; both ports are bound. Call it inside a running event loop.

    Raises:
        StartError: a port cannot be had, a file not be written, or an extra is missing.
    """
    loop = asyncio.get_running_loop()
    clock = loop.time
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
    services = build_services(config, engines, clock, observer, policy, Measure(readings), loop)
    services.pair.shadow = build_shadow(current, tuple(engines))
    services.pair.on_record = decisions.record
    current.close_log = decisions.close
    services.aborter.on_abort = metrics.on_abort
    services.tracer = build_tracer(config)
    wiring = Wiring(
        services.pair, partial(cross, services, readings), log, partial(refit, services.pair, current)
    )
    watched = Watched(services.pair, readings, clock, wiring.identity)
    watch_process(registry, loop)
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
    admin, server = config.admin, config.server
    admin_app = build_admin(view, registry, admin.token.get_secret_value(), admin.allowed_hosts, admin.host)
    watch = HealthWatch(services.pair, log)
    client = make_client()
    return Router(
        services,
        data_port,
        _port(config, data_port, server.host, server.port, "data"),
        _port(config, of_now(services.pair, admin_app), admin.host, admin.port, "admin"),
        build_monitors(config, services, readings, wiring, watch, client, log),
        client,
        watch,
        cost,
        wiring,
        registry,
        current,
        log,
    )


def of_now(pair: Pair, app: ASGIApp) -> ASGIApp:
    """`app`, with the pair evaluated before each request: what it says is of that moment.

    Requests that end are followed by an evaluation, but only when all that end at a moment have ended.
    """

    async def evaluated(scope: Scope, receive: Receive, send: Send) -> None:
        pair.evaluate()
        await app(scope, receive, send)

    return evaluated


def build_monitors(
    config: Config,
    services: Services,
    readings: Mapping[Path, Readings],
    wiring: Wiring,
    watch: HealthWatch,
    client: httpx.AsyncClient,
    log: FilteringBoundLogger,
) -> list[EngineMonitor]:
    """Who looks after each engine, and who hears what is found."""
    pair, clock = services.pair, services.clock

    def on_probe() -> None:
        pair.evaluate()
        watch.check(clock())

    def on_load(configured: Path, load: EngineLoad | None) -> None:
        path = wiring.path_of(configured)
        if load is not None:
            pair.reconcilers[path].read(load)
            return
        pair.reconcilers[path].forget()
        services.affinity.forget(path)

    def monitor(path: Path, engine: Engine) -> EngineMonitor:
        return EngineMonitor(
            Endpoint(engine.url, engine.api_key.get_secret_value() if engine.api_key else None),
            client,
            pair.engines[path],
            readings[path],
            rhythm(config),
            clock,
            asyncio.sleep,
            on_probe,
            partial(on_load, path),
            partial(wiring.hear, path),
            log.bind(path=path.value),
        )

    configured = config.pairs[0]
    return [monitor(path, engine) for path in Path if (engine := configured.engine(path))]


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


def _port(config: Config, app: Any, host: str, port: int, what: str) -> Port:
    timeouts = config.timeouts
    server = build_server(app, keep_alive=timeouts.keep_alive, head=HeadLimits(timeouts.client_header))
    return Port(server, bind(host, port, what))
