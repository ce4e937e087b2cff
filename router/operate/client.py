"""The admin port, asked from the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx

from router.core.headers import bearer

LIMIT = 10.0


class Refused(Exception):
    """What the router, or the way to it, said no to; one line for the operator."""


@dataclass(frozen=True, slots=True)
class AdminClient:
    """A router's admin port.

    Attributes:
        url: such as `http://127.0.0.1:29000`.
        token: needed for changes.
    """

    url: str
    token: str = field(default="", repr=False)

    def get(self, target: str) -> Any:
        """A JSON answer. Raises Refused."""
        return self._ask("GET", target, None)

    def change(self, method: str, target: str, body: dict[str, Any] | None = None) -> Any:
        """Change something and return what the router says. Raises Refused."""
        return self._ask(method, target, body)

    def _ask(self, method: str, target: str, body: dict[str, Any] | None) -> Any:
        try:
            answer = httpx.request(
                method,
                self.url.rstrip("/") + target,
                json=body,
                headers=bearer(self.token),
                timeout=LIMIT,
                trust_env=False,
            )
            said = answer.json()
        except httpx.HTTPError as error:
            raise Refused(f"{self.url}: no answer ({type(error).__name__})") from None
        except ValueError:
            raise Refused(f"{self.url}: not the admin port of a router") from None
        if answer.is_success:
            return said
        message = said.get("error", {}).get("message") if isinstance(said, dict) else None
        raise Refused(f"{self.url}: {message or answer.status_code}")
