"""Where spans of requests go, if anywhere."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator

from router.config.errors import Invalid
from router.config.fields import is_nothing
from router.config.scalars import typed
from router.config.section import Section

COLLECTOR_FORM = "http://HOST:PORT or https://HOST:PORT, a path of its own in place of /v1/traces, or null"
SHARE_FORM = "a number from 0 to 1"
_SIGNAL_PATH = "/v1/traces"


def _collector(value: object) -> str | None:
    if is_nothing(value):
        return None
    if not isinstance(value, str):
        raise Invalid("is not text (put quotes around it)", COLLECTOR_FORM)
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not value.isascii() or not value.isprintable() or " " in value:
        raise Invalid("is not a URL", COLLECTOR_FORM)
    if "@" in parts.netloc:
        raise Invalid(
            "holds a user or password (credentials belong in the environment: OTEL_EXPORTER_OTLP_HEADERS)",
            COLLECTOR_FORM,
        )
    if "?" in value or "#" in value:
        raise Invalid("has a query or fragment", COLLECTOR_FORM)
    return value if parts.path.strip("/") else value.rstrip("/") + _SIGNAL_PATH


def _share(value: object) -> float:
    value = typed(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Invalid("is not a number", SHARE_FORM)
    if not 0 <= value <= 1:  # never true of nan
        raise Invalid("is out of range", SHARE_FORM)
    return float(value)


class Tracing(Section):
    """Spans of proxied requests, sent by OTLP over HTTP. Off without an endpoint.

    `sample` is the share of requests that are traced where the client brings no trace of its own.
    """

    endpoint: Annotated[str | None, BeforeValidator(_collector)] = None
    sample: Annotated[float, BeforeValidator(_share)] = 1.0
