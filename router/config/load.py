"""Reads a configuration file: all of it is right, or ConfigError says everything that isn't."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import SecretStr, TypeAdapter, ValidationError

from router.calibration import CalibrationError, load_calibration
from router.config.document import Document, read_document
from router.config.errors import ConfigError, Invalid, Problem, printable
from router.config.explain import explain
from router.config.fields import ClientKey
from router.config.policy import Policy, PolicyRules
from router.config.schema import Config
from router.core.calibration import Key, mismatches
from router.core.words import Placement

Rules = TypeVar("Rules", bound=PolicyRules)

# A larger file would take longer to parse than an operator waits for an error.
MAX_FILE_BYTES = 256 << 10


def load_config(path: Path, env: Mapping[str, str]) -> Config:
    """Read, expand and check the file, and read the keys of `server.api_keys_file` into `server.api_keys`.

    A relative `api_keys_file` is looked up beside the configuration file. Raises ConfigError.
    """
    file = printable(str(path))
    try:
        text = _read(path)
    except Invalid as wrong:
        raise ConfigError((Problem(file, None, "", wrong.what, None, wrong.allowed),)) from None
    document = read_document(text, file, env)
    config = _validated(document)
    keys = _file_keys(document, config, path.parent)
    policy = _read_calibrations(document, config, path.parent)
    if config is None or document.problems:
        raise ConfigError(_in_order(document))
    server = config.server.model_copy(update={"api_keys": (*config.server.api_keys, *keys)})
    return config.model_copy(update={"server": server, "policy": policy})


def _validated(document: Document) -> Config | None:
    if () in document.problems:
        return None
    if document.value is None:
        document.blame((), "is empty", None, "a mapping; pairs is the one key that is needed")
        return None
    if not isinstance(document.value, dict):
        document.blame((), "is not a mapping of keys to values", None, "key: value, one a line")
        return None
    try:
        return Config.model_validate(document.value)
    except ValidationError as error:
        explain(document, error)
    return None


def _file_keys(document: Document, config: Config | None, folder: Path) -> tuple[SecretStr, ...]:
    if config is None or config.server.api_keys_file is None:
        return ()
    place = ("server", "api_keys_file")
    name = printable(config.server.api_keys_file)
    try:
        lines = _read(folder / config.server.api_keys_file).splitlines()
    except Invalid as wrong:
        allowed = wrong.allowed or "a readable file of keys, one a line"
        document.blame(place, f"names a file that {wrong.what}", name, allowed)
        return ()
    keys = []
    for number, line in enumerate(lines, 1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        try:
            keys.append(_CLIENT_KEY.validate_python(entry))
        except ValidationError as error:
            refused = error.errors()[0]["ctx"]["error"]
            document.blame(place, f"names a file whose line {number} {refused.what}", name, refused.allowed)
    if not keys:
        # Without this, a key file that was emptied by mistake would open the router to everybody.
        document.blame(place, "names a file that holds no key", name, "one key a line, or null")
    return tuple(keys)


def _read_calibrations(document: Document, config: Config | None, folder: Path) -> Policy | None:
    """The policy with the place of its calibrations; they are read to see that they can be used."""
    if config is None:
        return None
    policy = _placed(document, config.policy, ("policy",), config, folder)
    if policy.shadow is None:
        return policy
    shadow = _placed(document, policy.shadow, ("policy", "shadow"), config, folder)
    return policy.model_copy(update={"shadow": shadow})


def _placed(document: Document, rules: Rules, place: tuple[str, ...], config: Config, folder: Path) -> Rules:
    if rules.calibration is None:
        return rules
    file = folder / rules.calibration
    place = (*place, "calibration")
    shown = printable(rules.calibration)
    try:
        made_for = load_calibration(file).key
    except CalibrationError as error:
        what = f"names a file that cannot be used: {error.key}: {error.value!r}"
        document.blame(place, printable(what), shown, error.allowed)
        return rules
    placement = config.pairs[0].placement
    reasons = mismatches(made_for, Key(placement=placement)) if placement is not Placement.SINGLE else ()
    if reasons:
        what = f"does not hold for this pair: {reasons[0]}"
        document.blame(place, what, shown, "one made for these engines")
    return rules.model_copy(update={"calibration": str(file)})


_CLIENT_KEY: TypeAdapter[SecretStr] = TypeAdapter(ClientKey)


def _read(path: Path) -> str:
    """The text of a small file. Raises Invalid."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise Invalid(f"cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise Invalid("cannot be read: its name holds a zero byte") from None
    if len(data) > MAX_FILE_BYTES:
        raise Invalid("is too large", "at most 256 KiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"is not UTF-8: byte 0x{data[error.start]:02x} in line {line}"
        raise Invalid(what, "text in UTF-8") from None


def _in_order(document: Document) -> tuple[Problem, ...]:
    return tuple(sorted(document.problems.values(), key=lambda problem: (problem.line or 0, problem.path)))
