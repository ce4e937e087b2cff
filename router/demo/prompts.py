"""What the load asks: seeded requests that share a system prompt, and lengths of answers."""

from __future__ import annotations

import json
import math
from random import Random

_WORDS = [
    "batch",
    "cache",
    "draft",
    "engine",
    "token",
    "prompt",
    "layer",
    "verify",
    "accept",
    "tree",
    "head",
    "latency",
    "queue",
    "stream",
    "block",
    "page",
    "memory",
    "kernel",
    "graph",
    "decode",
    "prefill",
    "request",
    "answer",
    "model",
    "weight",
    "router",
    "path",
    "switch",
    "load",
    "wave",
]
_SYSTEM_WORDS = 200
_QUESTION_WORDS = (10, 60)
_SPREAD = 0.4  # sigma of the log-normal lengths: 95 % lie within a factor of 2.2 of the median
_BOUND = 3  # no answer is further than this factor from the median


class Prompts:
    """Bodies of chat requests, the same for the same seed, user and turn.

    Args:
        seed: of everything drawn.
        model: name of the model.
        answer_tokens: median length of an answer.
    """

    def __init__(self, seed: int, model: str, answer_tokens: int) -> None:
        self._seed = seed
        self._model = model
        self._answer_tokens = answer_tokens
        self._system = _text(Random(f"{seed}/system"), _SYSTEM_WORDS)

    def body(self, user: int, turn: int) -> bytes:
        """The request that a user sends in a turn: streamed, with usage, of a fixed length of answer."""
        rng = Random(f"{self._seed}/{user}/{turn}")
        question = _text(rng, rng.randint(*_QUESTION_WORDS))
        request = {
            "model": self._model,
            "messages": [
                {"role": "system", "content": self._system},
                {"role": "user", "content": question},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": answer_length(rng, self._answer_tokens),
            "ignore_eos": True,
        }
        return json.dumps(request).encode()


def answer_length(rng: Random, median: int) -> int:
    """Tokens of one answer: log-normal around the median, bounded on both sides."""
    drawn = median * math.exp(rng.gauss(0.0, _SPREAD))
    return max(1, round(min(max(drawn, median / _BOUND), median * _BOUND)))


def _text(rng: Random, words: int) -> str:
    return " ".join(rng.choices(_WORDS, k=words))
