"""From what the schema rejects to problems in an operator's words."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from router.config.document import Document, KeyPath, dotted
from router.config.errors import MASK, Invalid, shown
from router.config.schema import Config
from router.config.unbuilt import NOT_SUPPORTED, UNBUILT_KEYS, UNBUILT_VALUES

SECRET_KEYS = frozenset({"token", "api_key", "admin_api_key", "api_keys"})


def explain(document: Document, error: ValidationError) -> None:
    """Add each rejection to the document's problems, unless the place (or one above it) already has one."""
    known = set(document.problems)
    for detail in error.errors(include_url=False):
        path = _path(detail)
        if not any(path[:length] in known for length in range(len(path) + 1)):
            _explain_one(document, path, detail)


def _explain_one(document: Document, path: KeyPath, detail: ErrorDetails) -> None:
    plain = dotted(tuple(step for step in path if isinstance(step, str)))
    value = _value_at(document.value, path)
    match detail["type"]:
        case "extra_forbidden":
            if plain in UNBUILT_KEYS:
                document.blame(path, NOT_SUPPORTED)
            else:
                _explain_unknown(document, path)
        case "missing":
            document.blame(path, "is missing", None, _MISSING.get(str(path[-1]), ""))
        case "value_error":
            wrong = detail.get("ctx", {}).get("error")
            assert isinstance(wrong, Invalid), wrong
            got = _show(path, value)
            if value is _ABSENT and not wrong.at:
                got = f"the default {shown(detail['input'])}"
            unbuilt = isinstance(value, str) and (plain, value) in UNBUILT_VALUES
            document.blame(path, NOT_SUPPORTED if unbuilt else wrong.what, got, wrong.allowed)
        case "model_type" | "model_attributes_type":
            _explain_section(document, path, value)
        case _:
            document.blame(path, "is not acceptable", _show(path, value))


_MISSING = {
    "url": "http://HOST:PORT",
    "pairs": "a list with one pair and its engines",
}
_ABSENT = object()


def _explain_section(document: Document, path: KeyPath, value: object) -> None:
    keys = ", ".join(_keys(path))
    if value is None:
        allowed = f"a mapping with the keys {keys}; or no such line, for the defaults"
        document.blame(path, "is empty", None, allowed)
    else:
        # The value of a section written as text may well be a URL with a password, or a key.
        kind = "a list" if isinstance(value, list | tuple) else "a single value"
        document.blame(path, "is not a mapping", kind, f"a mapping with the keys {keys}")


def _path(detail: ErrorDetails) -> KeyPath:
    wrong = detail.get("ctx", {}).get("error")
    return (*detail["loc"], *(wrong.at if isinstance(wrong, Invalid) else ()))


def _value_at(value: object, path: KeyPath) -> object:
    for step in path:
        inside_list = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if not inside_list and not (isinstance(value, dict) and step in value):
            return _ABSENT
        value = value[step]  # type: ignore[index]
    return value


def _show(path: KeyPath, value: object) -> str | None:
    if value is _ABSENT:
        return None
    if SECRET_KEYS.intersection(str(step) for step in path) and value not in (None, "", [], {}):
        return MASK
    return shown(value)


def _explain_unknown(document: Document, path: KeyPath) -> None:
    key, keys = str(path[-1]), _keys(path[:-1])
    near = difflib.get_close_matches(key.lower(), keys, n=1, cutoff=0.6)
    places = [place for place in _all_keys(Config, ()) if place[-1] == key]
    # A section inside another may repeat its keys, as policy.shadow does.
    highest = min(map(len, places), default=0)
    elsewhere = [dotted(place) for place in places if len(place) == highest]
    if not near and len(elsewhere) == 1:
        near = elsewhere
    if near:
        document.blame(path, f"is an unknown key, did you mean {near[0]}?")
    else:
        document.blame(path, "is an unknown key", None, ", ".join(keys))


def _keys(path: KeyPath) -> list[str]:
    """The keys of the section at the path."""
    model: type[BaseModel] | None = Config
    for step in path:
        if model is not None and isinstance(step, str):
            field = model.model_fields.get(step)
            model = None if field is None else _section(field.annotation)
    return [] if model is None else list(model.model_fields)


def _all_keys(model: type[BaseModel], above: KeyPath) -> Iterator[KeyPath]:
    for name, field in model.model_fields.items():
        yield (*above, name)
        inner = _section(field.annotation)
        if inner is not None:
            yield from _all_keys(inner, (*above, name))


def _section(annotation: Any) -> type[BaseModel] | None:
    """The section that a field holds, if it holds one: directly, or in an optional or a tuple."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_section(part) for part in get_args(annotation) if part is not SecretStr)
    return next((section for section in found if section is not None), None)
