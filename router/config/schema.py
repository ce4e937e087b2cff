"""The configuration: every key, its default and what it must agree with.

Attributes are named as the keys of the file. Durations are in seconds (in `timeouts` 0 means no limit), sizes
in bytes.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, ValidationInfo, field_validator, model_validator

from router.config.errors import Invalid
from router.config.fields import (
    ClientKey,
    EngineUrl,
    FieldPath,
    FileName,
    Flag,
    Host,
    Name,
    OptionalKey,
    Port,
    RuleWhen,
    Token,
    is_loopback,
    is_wildcard,
    listed,
    one_of,
    whole,
)
from router.config.launch import Launch
from router.config.policy import Policy
from router.config.section import Section
from router.config.tracing import Tracing
from router.config.units import Duration, PositiveDuration, PositiveSize, format_size
from router.core.words import Path, Placement

Count = Annotated[int, whole(1)]


class Server(Section):
    """The data port and its limits."""

    host: Host = "0.0.0.0"
    port: Port = 8000
    max_body: PositiveSize = 64 << 20
    body_memory: PositiveSize = 1 << 30
    max_active: Count = 512
    queue_size: Annotated[int, whole(0)] = 256
    queue_timeout: PositiveDuration = 30.0
    drain_timeout: Duration = 300.0
    api_keys: Annotated[tuple[ClientKey, ...], BeforeValidator(listed)] = ()
    api_keys_file: FileName = None

    @field_validator("body_memory")
    @classmethod
    def _one_body_fits(cls, body_memory: int, info: ValidationInfo) -> int:
        max_body = info.data.get("max_body", 0)
        if body_memory < max_body:
            raise Invalid(
                f"of {format_size(body_memory)} could never hold a body of server.max_body",
                f"{format_size(max_body)} or more",
            )
        return body_memory


class Admin(Section):
    """The admin port: metrics, live page and the calls that change state."""

    host: Host = "127.0.0.1"
    port: Port = 29000
    token: Token = ""  # type: ignore[assignment]
    allowed_hosts: Annotated[tuple[Host, ...], BeforeValidator(listed)] = ()

    @model_validator(mode="after")
    def _closed_to_strangers(self) -> Self:
        if not is_loopback(self.host) and not self.token.get_secret_value():
            raise Invalid(
                f"is needed because admin.host {self.host} can be reached from other machines",
                "a token, or a loopback admin.host such as 127.0.0.1",
                ("token",),
            )
        return self


class Engine(Section):
    """One SGLang server."""

    url: EngineUrl
    api_key: OptionalKey = None
    admin_api_key: OptionalKey = None


class Pair(Section):
    """The engines of one model."""

    name: Name = "default"
    placement: Annotated[Placement, one_of(*Placement)] = Placement.SHARED
    speculative: Engine | None = None
    baseline: Engine | None = None

    @model_validator(mode="after")
    def _engines_fit_placement(self) -> Self:
        missing = [path for path in Path if self.engine(path) is None]
        if self.placement is Placement.SINGLE:
            if len(missing) != 1:
                raise Invalid(
                    f"is single, but the pair has {2 - len(missing)} engines",
                    "exactly one of speculative, baseline; or placement shared or separate with both",
                    ("placement",),
                )
        elif missing:
            raise Invalid(
                f"is needed by placement {self.placement}",
                "an engine: {url: http://HOST:PORT}; or placement single",
                (missing[0].value,),
            )
        return self

    @model_validator(mode="after")
    def _engines_differ(self) -> Self:
        if self.speculative and self.baseline and self.speculative.url == self.baseline.url:
            raise Invalid(
                "is the same as the speculative engine's",
                "a different engine for each path; or placement single with one engine",
                ("baseline", "url"),
            )
        return self

    def engine(self, path: Path) -> Engine | None:
        """The engine that serves the path, if the pair has one."""
        return self.speculative if path is Path.SPECULATIVE else self.baseline


class RoutingRule(Section):
    """Requests that only one path can serve, found by a field of their body."""

    field: FieldPath
    when: RuleWhen
    path: Annotated[Path, one_of(*Path)]


class Routing(Section):
    """What decides the path of a single request."""

    allow_path_header: Flag = False
    rules: Annotated[tuple[RoutingRule, ...], BeforeValidator(listed)] = ()


class Timeouts(Section):
    """Limits of one request, in seconds. 0 means none."""

    connect: Duration = 2.0
    first_byte: Duration = 600.0
    idle: Duration = 300.0
    total: Duration = 0.0
    client_header: Duration = 15.0
    client_body: Duration = 60.0
    client_write: Duration = 60.0
    keep_alive: Duration = 75.0


class Retry(Section):
    """How often a request may be sent again before its first byte reached the client."""

    other_path: Annotated[int, whole(0, 1)] = 1


class Breaker(Section):
    """When traffic alone takes an engine out, and how it comes back."""

    failure_threshold: Count = 5
    success_threshold: Count = 2
    open_for: PositiveDuration = 10.0


class ReadyProbe(Section):
    """The cheap, frequent question whether an engine is up."""

    interval: PositiveDuration = 1.0
    timeout: PositiveDuration = 2.0


class DeepProbe(Section):
    """The rare question that runs a token through an engine, to catch a hung scheduler."""

    interval: PositiveDuration = 30.0
    timeout: PositiveDuration = 25.0


class Health(Section):
    """Probes of the engines."""

    ready: ReadyProbe = ReadyProbe()
    deep: DeepProbe = DeepProbe()
    failure_threshold: Count = 3
    success_threshold: Count = 2


class EngineCalls(Section):
    """What the router adds to the requests it sends to engines."""

    inject_rid: Flag = False


class Log(Section):
    """What is logged, and how."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], one_of("debug", "info", "warning", "error")
    ] = "info"
    format: Annotated[Literal["auto", "text", "json"], one_of("auto", "text", "json")] = "auto"
    decisions: FileName = None


def _one_pair(value: object) -> tuple[object, ...]:
    pairs = listed(value)
    if not pairs:
        raise Invalid("is empty", "exactly one pair")
    if len(pairs) > 1:
        raise Invalid(f"holds {len(pairs)} pairs", "for now exactly one pair")
    return pairs


class Config(Section):
    """The whole configuration. Only `pairs` has no default."""

    server: Server = Server()
    admin: Admin = Admin()
    pairs: Annotated[tuple[Pair, ...], BeforeValidator(_one_pair)]
    policy: Policy = Policy()
    routing: Routing = Routing()
    timeouts: Timeouts = Timeouts()
    retry: Retry = Retry()
    breaker: Breaker = Breaker()
    health: Health = Health()
    engine: EngineCalls = EngineCalls()
    log: Log = Log()
    tracing: Tracing = Tracing()
    launch: Launch | None = None

    @field_validator("launch")
    @classmethod
    def _where_the_router_looks(cls, launch: Launch | None, info: ValidationInfo) -> Launch | None:
        pairs: tuple[Pair, ...] = info.data.get("pairs", ())
        if launch is None or not pairs:
            return launch
        for path in Path:
            engine = pairs[0].engine(path)
            port = launch.ports.of(path).http
            url = urlsplit(engine.url) if engine else None
            if url and is_loopback(url.hostname or "") and (url.port or 80) != port:
                raise Invalid(
                    f"is not the port of pairs[0].{path.value}.url, where the router looks for this engine",
                    str(url.port or 80),
                    ("ports", path.value, "http"),
                )
        return launch

    @field_validator("admin")
    @classmethod
    def _own_port(cls, admin: Admin, info: ValidationInfo) -> Admin:
        server: Server | None = info.data.get("server")
        if server is None or admin.port == 0 or admin.port != server.port:
            return admin
        if _meet(admin.host, server.host):
            raise Invalid("is also server.port, on the same host", "two different ports", ("port",))
        return admin


def _meet(one: str, other: str) -> bool:
    one, other = (host if host != "localhost" else "127.0.0.1" for host in (one, other))
    return one == other or is_wildcard(one) or is_wildcard(other)
