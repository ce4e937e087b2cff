"""The way to an engine, as the data path sees it."""

from __future__ import annotations

from dataclasses import dataclass

from router.upstream.pool import Pool


@dataclass(frozen=True, slots=True)
class EngineLink:
    """How one engine is reached.

    Attributes:
        host: the Host header.
        api_key: sent in place of the client's own.
        admin_api_key: for the engine's control routes.
    """

    pool: Pool
    host: bytes
    api_key: bytes | None
    admin_api_key: bytes | None
