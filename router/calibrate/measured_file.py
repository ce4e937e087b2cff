"""A measurement as a JSON file, so that it can be fitted again without engines."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path as FilePath
from typing import Any

import msgspec

from router.calibrate.measured import Alone, Both, Measured, Routed

VERSION = 1
MAX_FILE_BYTES = 16 << 20


class MeasuredError(ValueError):
    """A file that holds no measurement."""


def dump_measured(measured: Measured) -> bytes:
    """The file's content. A number that is not finite becomes null."""
    document = {"version": VERSION, **msgspec.to_builtins(measured, str_keys=True)}
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def load_measured(path: FilePath) -> Measured:
    """The measurement in a file. Raises MeasuredError."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise MeasuredError(f"{path}: {error}; allowed: a readable file of a measurement") from None
    if len(data) > MAX_FILE_BYTES:
        raise MeasuredError(f"{path}: {len(data)} bytes or more; allowed: at most 16 MiB")
    return parse_measured(data, str(path))


def parse_measured(data: bytes, place: str) -> Measured:
    """The measurement in a text; `place` names it in errors. Raises MeasuredError."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MeasuredError(f"{place}: {error}; allowed: JSON as `calibrate` writes it") from None
    version = document.get("version") if isinstance(document, dict) else None
    if version != VERSION:
        raise MeasuredError(f"{place}: version: {version!r} is not allowed; allowed: {VERSION}")
    for name, kind in (("alone", Alone), ("both", Both), ("routed", Routed)):
        _restore(document.get(name), kind)
    try:
        return msgspec.convert(document, Measured)
    except msgspec.ValidationError as error:
        raise MeasuredError(f"{place}: {error}") from None


def _restore(cells: object, kind: type[Any]) -> None:
    """JSON has no word for a number that is none. What must be one and is null was such a number."""
    numbers = [each.name for each in fields(kind) if each.type == "float"]
    for cell in cells if isinstance(cells, list) else []:
        for name in numbers if isinstance(cell, dict) else []:
            if name in cell and cell[name] is None:
                cell[name] = math.nan
