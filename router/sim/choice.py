"""One answer being generated, and what every wire format needs to know of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from router.sim.calls import Prompt
from router.sim.errors import EngineError
from router.sim.request import Delivery, Finish, SimRequest
from router.sim.text import Script


@dataclass(slots=True)
class Choice:
    """One of the answers to a call: its id on the wire, its script and how much of it is out.

    `failure`: why the scheduler gave it up.
    """

    rid: str
    index: int
    prompt: Prompt
    script: Script
    request: SimRequest
    taken: int = 0
    failure: EngineError | None = None
    text: bytearray = field(default_factory=bytearray)

    def take(self, delivery: Delivery) -> bytes:
        """JSON-escaped text of the delivery's tokens; empty for an end-of-text token."""
        start = self.taken
        self.taken = end = start + delivery.tokens
        pieces = self.script.pieces
        text = pieces[start] if end - start == 1 else b"".join(pieces[start:end])
        self.text += text
        return text

    @property
    def matched_stop(self) -> int | str | None:
        """What made it stop, if something did."""
        return self.script.matched_stop if self.request.finish is Finish.STOP else None


class Format(Protocol):
    """A wire format for one call."""

    headers_at_once: bool  # send a stream's headers before its first event

    def events(self, choice: Choice, delivery: Delivery) -> list[bytes]:
        """The stream's events for one delivery."""

    def tail(self, choices: list[Choice]) -> list[bytes]:
        """The stream's events after the last delivery."""

    def error_events(self, error: EngineError, choice: Choice | None = None) -> list[bytes]:
        """The events that end a failing stream; `choice` is the one that was given up, if any had begun."""

    def body(self, choices: list[Choice]) -> bytes:
        """The whole answer of a call that isn't streamed."""


DONE = b"data: [DONE]\n\n"


def usage(choices: list[Choice]) -> tuple[int, int]:
    """(prompt tokens, completion tokens) of a call; a prompt counts once however many choices it has."""
    prompts = {id(choice.prompt): choice.prompt.tokens for choice in choices}
    return sum(prompts.values()), sum(choice.taken for choice in choices)


def usage_json(prompt: int, completion: int) -> bytes:
    """A chat `usage` object."""
    return (
        b'{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,'
        b'"prompt_tokens_details":null,"reasoning_tokens":0,"completion_tokens_details":null}'
    ) % (prompt, prompt + completion, completion)


def metadata_json(choices: list[Choice]) -> bytes:
    """The `metadata` object that ends a body; it tells of the first choice only."""
    version = b'{"version":"default","start":0,"end":%d}' % choices[0].taken
    return b'{"weight_version":"default","weight_versions":[%s]}' % version
