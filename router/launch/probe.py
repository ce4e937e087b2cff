"""Talking to an engine while it starts: is it ready, does it really serve, its largest steps once (httpx).

`/ready` and `/health` can say 200 while requests still fail, so an engine counts as serving when it has made
a token for us.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx

from router.core.headers import bearer

DECODE_TOKENS = 32
PROMPT_TOKENS = 16
FIRST_TOKEN_ID = 10
"""Ids from here on are ordinary tokens, in small vocabularies too; those below are often special."""

TOKEN_IDS = 64


class NotYet(Exception):
    """The engine does not serve; the text is what it said instead."""


@dataclass(frozen=True, slots=True)
class BurnIn:
    """Tokens of one prompt, and how many requests decode together."""

    prompt: int
    batch: int


@dataclass(frozen=True, slots=True)
class Target:
    """Where an engine listens."""

    host: str
    port: int
    api_key: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """For a client on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def make_client() -> httpx.AsyncClient:
    """For all engines; the caller closes it."""
    return httpx.AsyncClient(trust_env=False, follow_redirects=False)


async def ready(client: httpx.AsyncClient, target: Target, timeout: float = 5.0) -> None:
    """Return if the engine says that it is ready. Raises NotYet."""
    answer = await _get(client, target, "/ready", timeout)
    if answer.status_code == 404:  # SGLang 0.5.16
        answer = await _get(client, target, "/health", timeout)
    if answer.status_code != 200:
        raise NotYet(f"{answer.request.url.path} says {answer.status_code}")


async def one_token(client: httpx.AsyncClient, target: Target, timeout: float = 60.0) -> None:
    """Have the engine make one token. Raises NotYet."""
    await _generate(client, target, [_prompt(PROMPT_TOKENS, 0)], 1, timeout)


async def burn_in(client: httpx.AsyncClient, target: Target, size: BurnIn, timeout: float) -> None:
    """One prompt as long as a prefill step, then the largest batch. Raises NotYet."""
    await _generate(client, target, [_prompt(size.prompt, 1)], 1, timeout)
    prompts = [_prompt(PROMPT_TOKENS, number + 2) for number in range(size.batch)]
    await _generate(client, target, prompts, DECODE_TOKENS, timeout)


async def pool_tokens(client: httpx.AsyncClient, target: Target, timeout: float = 10.0) -> int | None:
    """Size of the KV pool as the engine reports it, or None."""
    for route in ("/server_info", "/get_server_info"):
        try:
            answer = await _get(client, target, route, timeout)
        except NotYet:
            return None
        if answer.status_code == 200:
            found = _find(answer.json(), "max_total_num_tokens")
            return int(found) if isinstance(found, int) else None
    return None


def _find(value: Any, key: str) -> Any:
    """The key at the top, or in a list of one scheduler's state each."""
    if isinstance(value, dict):
        if key in value:
            return value[key]
        return next((found for each in value.values() if (found := _find(each, key)) is not None), None)
    if isinstance(value, list):
        return next((found for each in value if (found := _find(each, key)) is not None), None)
    return None


def _prompt(length: int, number: int) -> list[int]:
    """Token ids; different numbers share no prefix, so that no prefix cache shortens the work."""
    digits = [FIRST_TOKEN_ID + number % TOKEN_IDS, FIRST_TOKEN_ID + number // TOKEN_IDS % TOKEN_IDS]
    rest = [FIRST_TOKEN_ID + (number + 7 * at) % TOKEN_IDS for at in range(length)]
    return (digits + rest)[:length]


async def _generate(
    client: httpx.AsyncClient, target: Target, prompts: list[list[int]], tokens: int, timeout: float
) -> None:
    body = {
        "input_ids": prompts,
        "sampling_params": {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True},
    }
    try:
        answer = await client.post(
            f"{target.url}/generate", json=body, headers=bearer(target.api_key), timeout=timeout
        )
        made = answer.json() if answer.status_code == 200 else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise NotYet(f"/generate: {type(error).__name__} {error}".strip()) from None
    if made is None:
        raise NotYet(f"/generate says {answer.status_code}: {answer.text[:200]}")
    if not isinstance(made, list) or len(made) != len(prompts):
        raise NotYet(f"/generate answered something else than {len(prompts)} results")


async def _get(client: httpx.AsyncClient, target: Target, route: str, timeout: float) -> httpx.Response:
    try:
        return await client.get(target.url + route, headers=bearer(target.api_key), timeout=timeout)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NotYet(f"{route}: {type(error).__name__} {error}".strip()) from None
