"""What a simulated engine works on and what it hands out."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class Phase(StrEnum):
    """Where a request is in its life."""

    NEW = "new"
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"


class Finish(StrEnum):
    """Why a request ended, in the engine's words."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


class SimRequest:
    """One generation. Compared by identity; the engine alone changes it.

    `output_tokens`: how many tokens it yields if nothing aborts it. `finish`: what it then says.
    `accepted_drafts`: of its speculative steps, how many accepted 0, 1, 2 ... drafts.
    `blocks`: hashes of its prompt's blocks (`prefix.block_hashes`); empty never hits the prefix cache.
    Times are those of the driver, in seconds; -1 until they happen.
    """

    __slots__ = (
        "accepted_drafts",
        "admitted_at",
        "blocks",
        "cached_tokens",
        "finish",
        "finished_at",
        "first_token_at",
        "generated",
        "output_tokens",
        "phase",
        "prompt_tokens",
        "rid",
        "steps",
        "submitted_at",
    )

    def __init__(
        self,
        rid: str,
        prompt_tokens: int,
        output_tokens: int,
        finish: Finish = Finish.LENGTH,
        blocks: Sequence[int] = (),
    ) -> None:
        if prompt_tokens < 0 or output_tokens < 0:
            raise ValueError(
                f"token counts can't be negative: prompt {prompt_tokens}, output {output_tokens}"
            )
        self.rid = rid
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.finish = finish
        self.blocks = blocks
        self.phase = Phase.NEW
        self.generated = 0
        self.cached_tokens = 0
        self.steps = 0
        self.accepted_drafts: list[int] = []
        self.submitted_at = -1.0
        self.admitted_at = -1.0
        self.first_token_at = -1.0
        self.finished_at = -1.0

    def count_drafts(self, accepted: int, proposed: int) -> None:
        """Note how many of a step's drafts were right."""
        if not self.accepted_drafts:
            self.accepted_drafts = [0] * (proposed + 1)
        self.accepted_drafts[accepted] += 1


class Delivery(NamedTuple):
    """What one step gave one request: `tokens` new ones at time `at`; `finish` is set on its last
    delivery.
    """

    request: SimRequest
    tokens: int
    finish: Finish | None
    at: float
