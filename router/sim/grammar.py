"""Grammars that SGLang's compiler refuses, in its words."""

from __future__ import annotations

import re
from typing import Any

_TYPES = {"string", "number", "integer", "boolean", "null", "array", "object"}


def grammar_problem(body: dict[str, Any]) -> str | None:
    """Why the grammar that a body asks for does not compile; None if it does or there is none.

    The simulated model keeps to no grammar; only the refusal is SGLang's.
    """
    regex = body.get("regex")
    if isinstance(regex, str):
        try:
            re.compile(regex)
        except re.error as error:
            return f"Failed to compile regex grammar: {error}"
    chosen = body.get("response_format")
    described = chosen.get("json_schema") if isinstance(chosen, dict) else None
    schema = described.get("schema") if isinstance(described, dict) else None
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, str) and kind not in _TYPES:
        return f'Failed to compile json grammar: Unsupported type "{kind}"\n'
    return None
