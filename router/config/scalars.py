"""How the text of a YAML scalar becomes a value, and how `${VAR}` is put into it.

Only `true`, `false`, `null`, plain decimal integers and floats are special, as in YAML 1.2. YAML 1.1, which
PyYAML follows, also reads `yes`, `off`, `010`, `1_000` and `80:80` as something else than the operator wrote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

Scalar = str | int | float | bool | None

_SPECIAL: Mapping[str, float | bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,99})")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_REFERENCE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?")


class FromEnv(str):
    """Text that an environment variable had a part in. The field that takes it decides about its type.

    A port of `${PORT}` is then a number and a token of `${TOKEN}` is text, even when both hold digits only.
    """

    __slots__ = ()


class UnknownReference(ValueError):
    """A `${...}` that cannot be replaced; the text says why."""


def resolve(text: str) -> Scalar:
    """The value that plain YAML text stands for; text that stands for nothing else is returned as it is."""
    if text in _SPECIAL:
        return _SPECIAL[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def typed(value: object) -> object:
    """The value for a field that isn't text: what came from the environment is read as plain YAML."""
    return resolve(value.strip()) if isinstance(value, FromEnv) else value


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace `${VAR}` and `${VAR:-default}` (also used when VAR is empty); `$${` stands for `${`.

    What a variable holds is not looked at again. Raises UnknownReference.
    """

    def replace(match: re.Match[str]) -> str:
        name, default = match.groups()
        if match.group() == "$${":
            return "${"
        if name is None:
            raise UnknownReference("has a ${ that is not ${NAME} or ${NAME:-default} (plain: $${)")
        if default is not None:
            return env.get(name) or str(default)
        if name not in env:
            raise UnknownReference(
                f"environment variable {name} is not set; set it or write ${{{name}:-default}}"
            )
        return env[name]

    return _REFERENCE.sub(replace, text)
