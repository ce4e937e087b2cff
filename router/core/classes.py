"""Requests that only one path can serve, whatever the policy says.

With EAGLE SGLang ignores some request fields without a word and refuses others (0.5.16 to 0.5.23). The
rules are data: a field, when it counts, and the path. Operators add their own (`routing.rules`), which
are looked at first. Pure: the fields come in already decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from router.core.load import finite
from router.core.words import DecisionReason, Path

# Elements of a list that are looked at: a batch of `/generate` may have one value for each of its prompts.
BATCH_LOOK = 1024

# What pydantic, and so the engine, reads as true.
_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})


class When(StrEnum):
    """When a field's value makes a rule apply."""

    PRESENT = "present"  # anything but null
    TRUE = "true"
    ABOVE = ">"  # a number greater than the rule's limit


@dataclass(frozen=True, slots=True)
class Rule:
    """Requests whose `field` is so can only be served by `path`.

    Attributes:
        field: keys from the top of the body, joined by dots: `sampling_params.min_p`.
        when: see `When`.
        path: the only path.
        limit: for `When.ABOVE`.
    """

    field: str
    when: When
    path: Path
    limit: float = 0.0

    @property
    def keys(self) -> tuple[str, ...]:
        """The field as a path of keys, from the top of the body."""
        return tuple(self.field.split("."))

    def applies(self, fields: Mapping[str, object]) -> bool:
        """True if the request with these top-level fields falls under the rule."""
        return any(map(self._matches, _values(fields, self.keys)))

    def _matches(self, value: object) -> bool:
        if self.when is When.PRESENT:
            return value is not None
        if self.when is When.TRUE:
            return value is True or value == 1 or (isinstance(value, str) and value.lower() in _TRUE)
        number = _number(value)
        return number is not None and number > self.limit


def _baseline(field: str, when: When, limit: float = 0.0) -> tuple[Rule, Rule]:
    """The field at the top (OpenAI routes) and among the sampling parameters of `/generate`."""
    return (
        Rule(field, when, Path.BASELINE, limit),
        Rule(f"sampling_params.{field}", when, Path.BASELINE, limit),
    )


BUILT_IN: tuple[Rule, ...] = (
    *_baseline("min_p", When.ABOVE, 0.0),  # ignored: verification knows temperature, top_k and top_p
    *_baseline("custom_logit_processor", When.PRESENT),  # ignored after the first token
    *_baseline("beam_width", When.ABOVE, 1.0),  # refused
    *_baseline("return_sampling_mask", When.TRUE),  # refused
)

# A session lives in one engine and is opened by a control route, which the router does not serve.
# `session_id` is a mere label and changes no prompt (`io_struct.py`), so it passes.
SESSION_FIELD = "session_params"
# The response that a request to `/v1/responses` continues: its engine alone has it.
PREVIOUS_FIELD = "previous_response_id"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request itself says about its path.

    Attributes:
        path: the path.
        reason: `class`, `affinity` or `header`.
        only: no other path will do; without it the request is better served by the other than not at all.
        field: the field that a class rule found, for the message.
    """

    path: Path
    reason: DecisionReason
    only: bool
    field: str = ""


class Rules:
    """All rules of a router; the first that applies decides.

    Args:
        own: the operator's, looked at before the built-in ones.
    """

    def __init__(self, own: Iterable[Rule] = ()) -> None:
        self.all = (*own, *BUILT_IN)
        self._first_keys = tuple((rule.keys[0], rule) for rule in self.all)

    @property
    def names(self) -> frozenset[str]:
        """The top-level fields that must be decoded."""
        return frozenset({SESSION_FIELD, PREVIOUS_FIELD, *(rule.keys[0] for rule in self.all)})

    def wish(self, fields: Mapping[str, object]) -> Wish | None:
        """What follows for a request with these top-level fields; None: any path will do."""
        if not fields:
            return None
        for first, rule in self._first_keys:
            if first in fields and rule.applies(fields):
                return Wish(rule.path, DecisionReason.CLASS, only=True, field=rule.field)
        return None


def wants_session(fields: Mapping[str, object]) -> bool:
    """True for a request that would continue a session of an engine; SGLang takes an empty one for none."""
    return bool(fields.get(SESSION_FIELD))


def previous_response(fields: Mapping[str, object]) -> str | None:
    """The id of the response that a request continues."""
    value = fields.get(PREVIOUS_FIELD)
    return value if isinstance(value, str) else None


def _values(value: object, keys: tuple[str, ...]) -> list[object]:
    """What stands at `keys`, for each element where there is a list on the way or at the end."""
    for depth, key in enumerate(keys):
        if isinstance(value, list):
            # A list within a list is nothing that SGLang takes, and may be nested as deep as anybody likes.
            items = [item for item in value[:BATCH_LOOK] if isinstance(item, dict)]
            return [found for item in items for found in _values(item, keys[depth:])]
        if not isinstance(value, dict) or key not in value:
            return []
        value = value[key]
    return value[:BATCH_LOOK] if isinstance(value, list) else [value]


def _number(value: object) -> float | None:
    if isinstance(value, str):
        try:
            return finite(float(value))
        except ValueError:
            return None
    return finite(int(value) if isinstance(value, bool) else value)
