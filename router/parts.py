"""The parts of a router, each made from the configuration. `app.py` joins them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TextIO
from urllib.parse import urlsplit

from pydantic import SecretStr

from router import __version__
from router.config import Config, resolved
from router.config.schema import Engine, RoutingRule
from router.control.monitor import Rhythm
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
from router.core.load import Readings
from router.core.pair import Pair
from router.core.policy import Policy
from router.core.reconcile import Reconciler
from router.core.shadow import Shadow
from router.core.words import Path, Placement
from router.lifetime import Current
from router.policies import build_policy, build_threshold, doubts
from router.proxy.abort import Aborter
from router.proxy.body import Peeker
from router.proxy.budget import BodyBudget
from router.proxy.keys import ClientKeys
from router.proxy.link import EngineLink
from router.proxy.rounds import Rounds
from router.proxy.settings import Services, Settings
from router.proxy.trace import Tracer
from router.server.listener import StartError
from router.thrift import Once, new_ids
from router.upstream.pool import Pool


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
    loop: asyncio.AbstractEventLoop,
) -> Services:
    """What the data path works with."""
    pair_config = config.pairs[0]
    drain_rate = DrainRate(clock)
    evaluate = Once(lambda: pair.evaluate(), loop.call_soon)

    def on_close(_: object) -> None:
        drain_rate.record()
        door.pump()
        evaluate()  # N has fallen: a switch back is due now and not with the next request

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
    services = Services(
        pair,
        door,
        drain_rate,
        BodyBudget(config.server.body_memory),
        {path: engine_link(config, engine) for path, engine in engines.items()},
        Aborter(),
        Affinity(clock),
        observer,
        clock,
        new_ids().__next__,
        build_settings(config),
        Rounds(loop, lambda: services.settings.tick),
    )
    return services


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


def _secret(value: SecretStr | None) -> bytes | None:
    return value.get_secret_value().encode() if value else None
