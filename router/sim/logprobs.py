"""Log-probabilities in the shapes of the three routes. Made up: a token always has the same one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from router.sim.choice import Choice
from router.sim.text import detokenize, neighbours

_encode = msgspec.json.encode


def chat_logprobs(choice: Choice, start: int, top: int) -> bytes:
    """`logprobs` of the tokens from `start` on that are out, each with `top` alternatives, itself first."""
    return _encode(
        {"content": [_chat_entry(token, top) for token in choice.script.ids[start : choice.taken]]}
    )


def completion_logprobs(choice: Choice, start: int, top: int) -> bytes:
    """The same for /v1/completions."""
    ids = choice.script.ids[start : choice.taken]
    shown = {
        "text_offset": [-1] * len(ids),  # SGLang does not know it either
        "token_logprobs": [_logprob(token) for token in ids],
        "tokens": [detokenize([token]) for token in ids],
        "top_logprobs": [dict(_alternatives(token, top)) for token in ids] if top else [],
    }
    return _encode(shown)


def native_logprobs(choice: Choice, top: int) -> dict[str, Any]:
    """What /generate adds to `meta_info`; cumulative, like its text."""
    ids = choice.script.ids[: choice.taken]
    shown: dict[str, Any] = {
        "input_token_logprobs": [],
        "output_token_logprobs": [[_logprob(token), token, None] for token in ids],
        "output_token_logprobs_length": len(ids),
    }
    if top:
        rows = [
            [
                [_logprob(token) - rank * choice.script.gap(index), other, None]
                for rank, other in enumerate(neighbours(token, top))
            ]
            for index, token in enumerate(ids)
        ]
        shown |= {"input_top_logprobs": [], "output_top_logprobs": rows}
    return shown


def _chat_entry(token: int, top: int) -> dict[str, Any]:
    alternatives = [_named(text, value) for text, value in _alternatives(token, top)]
    return _named(detokenize([token]), _logprob(token)) | {"top_logprobs": alternatives}


def _named(text: str, value: float) -> dict[str, Any]:
    return {"token": text, "bytes": list(text.encode()), "logprob": value}


def _alternatives(token: int, top: int) -> Iterator[tuple[str, float]]:
    for rank, other in enumerate(neighbours(token, top)):
        yield detokenize([other]), _logprob(token) - rank


def _logprob(token: int) -> float:
    return -(token % 97 + 1) / 64
