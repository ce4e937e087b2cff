"""Asking an engine for a greedy answer, over its own `/generate`: ids and candidates are only told there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from router.control.client import Endpoint, Unanswered, get
from router.control.parse import read_identity
from router.core.headers import bearer
from router.core.identity import Identity
from router.core.load import finite
from router.core.words import Path
from router.verify.compare import Answer, Candidate

# Candidates asked for at each position: a token that is not among so many is no near-tie.
TOP = 8
IDENTITY_TIMEOUT = 5.0


class Unreachable(Exception):
    """An engine gave no usable answer; the text says which, and why, without its address."""


class Refused(Exception):
    """An engine refused a prompt as the asker's mistake."""


@dataclass(frozen=True, slots=True)
class Target:
    """One engine."""

    path: Path
    url: str
    api_key: str | None = field(default=None, repr=False)


class Asker:
    """Asks one engine.

    Args:
        client: for the requests.
        target: the engine.
        max_tokens: longest answer.
        timeout: seconds for one answer.
    """

    def __init__(self, client: httpx.AsyncClient, target: Target, max_tokens: int, timeout: float) -> None:
        self._client = client
        self._target = target
        self._max_tokens = max_tokens
        self._timeout = timeout

    async def identity(self) -> Identity | None:
        """What the engine says it is, if it does."""
        endpoint = Endpoint(self._target.url, self._target.api_key)
        try:
            answer = await get(self._client, endpoint, "/server_info", IDENTITY_TIMEOUT)
        except Unanswered:
            return None
        return read_identity(answer.body) if answer.status == 200 else None

    async def ask(self, prompt: str) -> Answer:
        """The greedy answer.

        Raises:
            Unreachable: there is none.
            Refused: the engine does not take the prompt.
        """
        body = {
            "text": prompt,
            "sampling_params": {"temperature": 0, "max_new_tokens": self._max_tokens},
            "return_logprob": True,
            "top_logprobs_num": TOP,
            "return_text_in_logprobs": True,
        }
        headers = bearer(self._target.api_key)
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._client.post(
                    self._target.url + "/generate", json=body, headers=headers, timeout=self._timeout
                )
        except TimeoutError:
            raise self._unreachable(f"no answer within {self._timeout:g} s") from None
        except httpx.HTTPError as error:
            raise self._unreachable(type(error).__name__) from None
        if answer.status_code == 400:
            raise Refused(f"the {self._target.path} engine refuses it (400)")
        if answer.status_code != 200:
            raise self._unreachable(f"status {answer.status_code}")
        try:
            return read_answer(answer.json())
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise self._unreachable("not an answer of SGLang's /generate") from None

    def _unreachable(self, why: str) -> Unreachable:
        return Unreachable(f"the {self._target.path} engine: {why}")


def read_answer(said: Any) -> Answer:
    """An answer of `/generate`. Raises ValueError, TypeError, KeyError or AttributeError if it is none."""
    tokens = said["output_ids"]
    if not all(isinstance(token, int) for token in tokens):
        raise ValueError("ids")
    rows = said["meta_info"].get("output_top_logprobs") or ()
    return Answer(tuple(tokens), tuple(_candidates(row) for row in rows))


def _candidates(row: Any) -> Mapping[int, Candidate]:
    found: dict[int, Candidate] = {}
    for logprob, token, text in row or ():
        value = finite(logprob)
        if value is not None and isinstance(token, int):
            found[token] = Candidate(token, value, text if isinstance(text, str) else None)
    return found
