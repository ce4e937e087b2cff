"""What a request says about its own path: its class, the response it continues, a header."""

from __future__ import annotations

from collections.abc import Mapping

from router.core.classes import Wish, previous_response, wants_session
from router.core.failure import Failure, Kind
from router.core.headers import header
from router.core.routes import Route
from router.core.words import DecisionReason, Path
from router.proxy.client import Client
from router.proxy.settings import Services, Settings

RESPONSES = "/v1/responses"


def read_wish(
    services: Services, settings: Settings, route: Route, client: Client, fields: Mapping[str, object]
) -> Wish | None:
    """The request's own word on its path; None: any will do. A class comes before a header.

    Raises:
        Failure: the request cannot be served as it is.
    """
    if fields and wants_session(fields):
        raise Failure(Kind.SESSION)
    asked = _asked_path(services, settings, client)
    wish = settings.rules.wish(fields)
    holder = None
    if route.label == RESPONSES and (previous := previous_response(fields)) is not None:
        holder = services.affinity.find(previous)
    if holder is not None and wish is not None and wish.path is not holder:
        raise Failure(Kind.CONFLICT)
    if wish is not None:
        return wish
    if holder is not None:
        return Wish(holder, DecisionReason.AFFINITY, only=True)
    return Wish(asked, DecisionReason.HEADER, only=False) if asked else None


def unavailable(wish: Wish | None) -> Failure:
    """What to tell a request for which there is no engine now."""
    if wish is None or not wish.only:
        return Failure(Kind.NO_ENGINE)
    why = f"`{wish.field}`" if wish.field else "the response it continues is there"
    return Failure(
        Kind.ONLY_PATH,
        f"Only the {wish.path} engine can serve this request ({why}), and it is not available now.",
    )


def _asked_path(services: Services, settings: Settings, client: Client) -> Path | None:
    if not settings.allow_path_header:
        return None
    value = header(client.headers, b"x-router-path")
    if value is None or value == b"auto":
        return None
    try:
        path = Path(value.decode("ascii", "replace"))
    except ValueError:
        raise Failure(Kind.PATH_HEADER) from None
    return path if path in services.pair.engines else None
