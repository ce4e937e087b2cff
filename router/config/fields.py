"""The kinds of single values that a configuration holds, other than durations and sizes."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, SecretStr

from router.config.errors import Invalid
from router.config.scalars import FromEnv, typed

URL_FORM = "http://HOST:PORT without user, path, query or fragment"
KEY_FORM = "text of visible ASCII characters without spaces"
MAX_COUNT = 1_000_000_000

_FIELD = re.compile(r"[A-Za-z0-9_-]{1,64}(?:\.[A-Za-z0-9_-]{1,64}){0,7}")
_ABOVE = re.compile(r">\s*(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)")
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_VISIBLE = re.compile(r"[!-~]{1,4096}")
_DIGEST = re.compile(r"sha256:[0-9A-Fa-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def whole(minimum: int, maximum: int = MAX_COUNT) -> BeforeValidator:
    """A whole number from minimum to maximum; text, floats and truth values are refused."""
    allowed = f"a whole number from {minimum} to {maximum}"

    def check(value: object) -> int:
        value = typed(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise Invalid("is not a whole number", allowed)
        if not minimum <= value <= maximum:
            raise Invalid("is out of range", allowed)
        return value

    return BeforeValidator(check)


def one_of(*names: str, nullable: bool = False) -> BeforeValidator:
    """One of a closed set of words."""
    allowed = ", ".join((*names, "null") if nullable else names)

    def check(value: object) -> str | None:
        value = typed(value)
        if value is None and nullable:
            return None
        if not isinstance(value, str) or value not in names:
            raise Invalid("is not one of the known words", allowed)
        return value

    return BeforeValidator(check)


def listed(value: object) -> tuple[object, ...]:
    """A YAML list as a tuple, so that what is read stays as it is."""
    if not isinstance(value, list | tuple):
        raise Invalid("is not a list", "a list: [a, b], or one '- entry' a line")
    return tuple(value)


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach a socket bound to the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_wildcard(host: str) -> bool:
    """Whether the host stands for every address of this machine."""
    return host in ("0.0.0.0", "::")


def _flag(value: object) -> bool:
    value = typed(value)
    if not isinstance(value, bool):
        raise Invalid("is not a truth value", "true, false")
    return value


def _text(value: object, allowed: str) -> str:
    if not isinstance(value, str):
        raise Invalid("is not text (put quotes around it)", allowed)
    return str(value)


def _name(value: object) -> str:
    allowed = "1 to 64 letters, digits, '_', '.' and '-', the first a letter or digit"
    text = _text(value, allowed)
    if not _NAME.fullmatch(text):
        raise Invalid("is not a name", allowed)
    return text


def _host(value: object) -> str:
    allowed = "a host name or an IP address, without scheme, port or brackets"
    text = _text(value, allowed)
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        pass
    # A last label of digits only is a mistyped IPv4 address, never a name.
    if not _HOST_NAME.fullmatch(text) or text.rstrip(".").rpartition(".")[2].isdigit():
        raise Invalid("is not a host", allowed)
    return text.lower()


def _file_name(value: object) -> str | None:
    if is_nothing(value):
        return None
    text = _text(value, "the path of a file, or null")
    if "\0" in text:
        raise Invalid("holds a zero byte", "the path of a file, or null")
    return text


def _key(value: object) -> SecretStr:
    text = value.get_secret_value() if isinstance(value, SecretStr) else _text(value, KEY_FORM)
    if not text:
        raise Invalid("is empty", KEY_FORM)
    if not _VISIBLE.fullmatch(text):
        raise Invalid("is not a usable key", f"{KEY_FORM}, at most 4096")
    return SecretStr(text)


def _client_key(value: object) -> SecretStr:
    key = _key(value)
    text = key.get_secret_value()
    if not text.startswith("sha256:"):
        return key
    if not _DIGEST.fullmatch(text):
        raise Invalid("is not a digest", "sha256: followed by 64 hexadecimal digits, or a key as it is")
    return SecretStr(text.lower())


def is_nothing(value: object) -> bool:
    """Whether the value is null or empty, in the file or in the environment it names."""
    bare = value.get_secret_value() if isinstance(value, SecretStr) else value
    return bare is None or bare == "" or (isinstance(bare, FromEnv) and typed(bare) is None)


def _optional_key(value: object) -> SecretStr | None:
    return None if is_nothing(value) else _key(value)


def _token(value: object) -> SecretStr:
    return SecretStr("") if is_nothing(value) else _key(value)


def _field_path(value: object) -> str:
    allowed = "the keys from the top of the body, joined by dots: min_p, sampling_params.min_p"
    text = _text(value, allowed)
    if not _FIELD.fullmatch(text):
        raise Invalid("is not a field of a request body", allowed)
    return text


def _rule_when(value: object) -> str:
    allowed = 'present, true, or ">" and a number, in quotes: ">0"'
    value = typed(value)
    if value is True or value in ("true", "present"):
        return "present" if value == "present" else "true"
    above = _ABOVE.fullmatch(value) if isinstance(value, str) else None
    if above is None:
        raise Invalid("is not a condition", allowed)
    return f">{above[1]}"


def _engine_url(value: object) -> str:
    text = _text(value, URL_FORM)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid("is not a URL", URL_FORM) from None
    if not text.isascii() or not text.isprintable() or " " in text:
        raise Invalid("is not a URL", URL_FORM)
    if "://" not in text:
        raise Invalid("has no scheme", URL_FORM)
    if parts.scheme == "https":
        raise Invalid("uses https, which this version does not speak to engines", URL_FORM)
    if parts.scheme != "http":
        raise Invalid("has an unknown scheme", URL_FORM)
    if "@" in parts.netloc:
        raise Invalid("holds a user or password (a key belongs in api_key)", URL_FORM)
    if port == 0 or parts.netloc.endswith(":"):
        raise Invalid("has no usable port", f"{URL_FORM}, PORT from 1 to 65535")
    if parts.path not in ("", "/"):
        raise Invalid("has a path", URL_FORM)
    if "?" in text or "#" in text:
        raise Invalid("has a query or fragment", URL_FORM)
    return _joined(host, port)


def _joined(host: str, port: int | None) -> str:
    try:
        name = _host(host)
    except Invalid:
        raise Invalid("has no valid host", URL_FORM) from None
    netloc = f"[{name}]" if ":" in name else name
    return f"http://{netloc}" if port is None else f"http://{netloc}:{port}"


Flag = Annotated[bool, BeforeValidator(_flag)]
Name = Annotated[str, BeforeValidator(_name)]
Host = Annotated[str, BeforeValidator(_host)]
Port = Annotated[int, whole(0, 65535)]
"""0 stands for any free port."""
FileName = Annotated[str | None, BeforeValidator(_file_name)]
ClientKey = Annotated[SecretStr, BeforeValidator(_client_key)]
"""A key that clients present, as it is or as `sha256:` and 64 lower-case hexadecimal digits."""
OptionalKey = Annotated[SecretStr | None, BeforeValidator(_optional_key)]
Token = Annotated[SecretStr, BeforeValidator(_token)]
"""Empty when there is none."""
EngineUrl = Annotated[str, BeforeValidator(_engine_url)]
"""`http://host` or `http://host:port`, lower case, without a trailing slash."""
FieldPath = Annotated[str, BeforeValidator(_field_path)]
"""Keys joined by dots."""
RuleWhen = Annotated[str, BeforeValidator(_rule_when)]
"""`present`, `true`, or `>` followed by a number."""
