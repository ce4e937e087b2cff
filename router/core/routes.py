"""The allow-list of the data port, on raw and undecoded paths.

A path is served only if its bytes equal an entry. Nothing is decoded, folded or redirected, so there
is no spelling that the router reads one way and an engine another (percent codes, `..`, doubled and
trailing slashes, `;`, upper case). Engine control routes are absent, hence unreachable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Handling(StrEnum):
    """How a route is answered."""

    PROXY = "proxy"  # counted, leased, decided
    SIDE = "side"  # asked of any living engine: model lists and descriptions
    HELD = "held"  # asked of the engine that holds the response
    LIVE = "live"  # the router's own liveness
    READY = "ready"  # the router's own readiness


@dataclass(frozen=True, slots=True)
class Route:
    """One allow-listed route. `label` is what metrics and logs call it.

    `response_id` is that of a stored response, where the path names one.
    """

    label: str
    method: str
    handling: Handling
    target: bytes
    response_id: str = ""


_PROXIED = (
    "/v1/chat/completions",
    "/v1/completions",
    "/generate",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/score",
    "/v1/classify",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses",
    "/tokenize",
    "/detokenize",
    "/v1/tokenize",
    "/v1/detokenize",
)
_SIDE = ("/v1/models", "/model_info", "/get_model_info")
_OWN = {"/healthz": Handling.LIVE, "/health": Handling.LIVE, "/readyz": Handling.READY}

_MODEL_PREFIX = b"/v1/models/"
# Model names as SGLang serves them: a hub id or a local name. No percent codes, so nothing to decode.
_MODEL_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:@+/")
_MODEL_MAX = 256

_RESPONSE_PREFIX = b"/v1/responses/"
_CANCEL = b"/cancel"
_RESPONSE_ID = re.compile(rb"resp_[A-Za-z0-9_.-]{1,128}")

ROUTES: dict[bytes, Route] = {
    **{path.encode(): Route(path, "POST", Handling.PROXY, path.encode()) for path in _PROXIED},
    **{path.encode(): Route(path, "GET", Handling.SIDE, path.encode()) for path in _SIDE},
    **{path.encode(): Route(path, "GET", handling, path.encode()) for path, handling in _OWN.items()},
}


def find_route(raw_path: bytes) -> Route | None:
    """The route for the path part of a request target, exactly as it stood on the wire; None: refuse."""
    route = ROUTES.get(raw_path)
    if route is None and raw_path.startswith(_MODEL_PREFIX) and _is_model(raw_path[len(_MODEL_PREFIX) :]):
        return Route("/v1/models/{id}", "GET", Handling.SIDE, raw_path)
    if route is None and raw_path.startswith(_RESPONSE_PREFIX):
        return _response_route(raw_path)
    return route


def _response_route(raw_path: bytes) -> Route | None:
    """Fetching a stored response, or cancelling the one that is being made."""
    rest = raw_path[len(_RESPONSE_PREFIX) :]
    name = rest.removesuffix(_CANCEL)
    if not _RESPONSE_ID.fullmatch(name):
        return None
    if name == rest:
        return Route("/v1/responses/{id}", "GET", Handling.HELD, raw_path, name.decode())
    return Route("/v1/responses/{id}/cancel", "POST", Handling.HELD, raw_path, name.decode())


def _is_model(name: bytes) -> bool:
    if not 0 < len(name) <= _MODEL_MAX or not _MODEL_BYTES.issuperset(name):
        return False
    return all(part not in (b"", b".", b"..") for part in name.split(b"/"))
