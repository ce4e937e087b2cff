"""The calibration as a YAML file, and one clear error for whatever a file gets wrong.

    version: 1
    key:
      model: m
      draft: d
      engine: 0.5.16
      flags: 9f2c…                    # hash of the arguments, see router/core/arguments.py; or any text
      placement: shared
      arguments:                      # those of SGLang that decide the speed
        speculative: {tp_size: 1, speculative_num_steps: 3}
        baseline: {tp_size: 1}
    workload: {prompt_tokens: 45, output_tokens: 160}
    speculative:
      cells:
        - {concurrency: 1, tokens_per_second: [445, 441], accept_length: [2.16, 2.14]}
      prefill_seconds_per_token: 0.000014
      drain_seconds: [3.1, 2.2]
      max_running_requests: 256
    baseline:
      cells:
        - {concurrency: 1, tokens_per_second: [336, 335]}
    mixed:
      - {baseline: 64, speculative: 8, baseline_tokens_per_second: 7218, speculative_tokens_per_second: 1759}
    made: {at: 2026-11-29T12:00:00Z, note: anything}

`made` is for people and not read. Unknown keys are errors, except names of arguments: each version of SGLang
has others.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

import yaml

from router.calibration.reader import CalibrationError, Reader
from router.core.calibration import (
    Calibration,
    Cell,
    Key,
    MixedCell,
    PathCalibration,
    Workload,
)
from router.core.words import Path, Placement

VERSION = 1
MAX_FILE_BYTES = 4 << 20

_TOP = ("version", "key", "workload", "speculative", "baseline", "mixed", "made")
_KEY = ("model", "draft", "engine", "flags", "placement", "arguments")
_PATH = ("cells", "prefill_seconds_per_token", "drain_seconds", "max_running_requests")
_CELL = ("concurrency", "tokens_per_second", "accept_length")
_MIXED = ("baseline", "speculative", "baseline_tokens_per_second", "speculative_tokens_per_second")


def load_calibration(path: FilePath) -> Calibration:
    """The calibration in a file. Raises CalibrationError."""
    place = str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:
        raise CalibrationError(place, "(file)", str(error), "a readable calibration file") from None
    if len(data) > MAX_FILE_BYTES:
        raise CalibrationError(place, "(file)", f"{len(data)} bytes or more", "at most 4 MiB")
    return parse_calibration(text, place)


def parse_calibration(text: str, place: str) -> Calibration:
    """The calibration in a text; `place` names it in errors. Raises CalibrationError."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CalibrationError(place, "(file)", str(error).replace("\n", " "), "valid YAML") from None
    return calibration_in(document, place)


def is_calibration(document: object) -> bool:
    """Whether a parsed file means to be a calibration, a faulty one included."""
    return isinstance(document, dict) and ("version" in document or "key" in document)


def calibration_in(document: object, place: str) -> Calibration:
    """The calibration in a parsed file; `place` names it in errors. Raises CalibrationError."""
    reader = Reader(place)
    top = reader.mapping("(file)", document, _TOP)
    if top.get("version") != VERSION:
        raise reader.refusal("version", top.get("version"), str(VERSION))
    return Calibration(
        key=_key(reader, top.get("key")),
        speculative=_path(reader, Path.SPECULATIVE, top.get("speculative")),
        baseline=_path(reader, Path.BASELINE, top.get("baseline")),
        mixed=tuple(
            _mixed(reader, f"mixed[{index}]", item)
            for index, item in enumerate(reader.sequence("mixed", top.get("mixed", [])))
        ),
        workload=_workload(reader, top.get("workload", {})),
    )


def dump_calibration(calibration: Calibration, made: Mapping[str, Any] | None = None) -> str:
    """The file's text; `made` is a note for people: when, where, by which command."""
    document: dict[str, Any] = {
        "version": VERSION,
        "key": _key_document(calibration.key),
        "workload": {
            "prompt_tokens": calibration.workload.prompt_tokens,
            "output_tokens": calibration.workload.output_tokens,
        },
        **{path.value: _path_document(calibration.path(path)) for path in Path},
        "mixed": [
            dict(
                zip(
                    _MIXED,
                    (cell.baseline, cell.speculative, cell.baseline_rate, cell.speculative_rate),
                    strict=True,
                )
            )
            for cell in calibration.mixed
        ],
    }
    if made:
        document["made"] = dict(made)
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=110)


def _key_document(key: Key) -> dict[str, Any]:
    texts = {name: None if (value := getattr(key, name)) is None else str(value) for name in _KEY[:5]}
    arguments = {path.value: dict(of_path) for path, of_path in key.arguments.items()}
    return {**texts, **({"arguments": arguments} if arguments else {})}


def _path_document(path: PathCalibration) -> dict[str, Any]:
    return {
        "cells": [
            {
                "concurrency": cell.concurrency,
                "tokens_per_second": list(cell.tokens_per_second),
                **({"accept_length": list(cell.accept_length)} if cell.accept_length else {}),
            }
            for cell in path.cells
        ],
        "prefill_seconds_per_token": path.prefill_seconds_per_token,
        "drain_seconds": list(path.drain_seconds),
        "max_running_requests": path.max_running_requests,
    }


def _key(reader: Reader, value: object) -> Key:
    fields = reader.mapping("key", value, _KEY)
    texts = {name: reader.text(f"key.{name}", fields.get(name)) for name in _KEY[:4]}
    placement = fields.get("placement")
    if placement not in (Placement.SHARED, Placement.SEPARATE):
        raise reader.refusal("key.placement", placement, "shared, separate")
    arguments = reader.mapping("key.arguments", fields.get("arguments", {}), tuple(Path))
    return Key(
        **texts,
        placement=Placement(placement),
        arguments={
            path: reader.plain(f"key.arguments.{path}", arguments[path]) for path in Path if path in arguments
        },
    )


def _workload(reader: Reader, value: object) -> Workload:
    fields = reader.mapping("workload", value, ("prompt_tokens", "output_tokens"))
    least = Workload()
    return Workload(
        reader.number("workload.prompt_tokens", fields.get("prompt_tokens", least.prompt_tokens), 0),
        reader.number("workload.output_tokens", fields.get("output_tokens", least.output_tokens), 1),
    )


def _path(reader: Reader, path: Path, value: object) -> PathCalibration:
    name = path.value
    fields = reader.mapping(name, value, _PATH)
    cells = tuple(
        _cell(reader, f"{name}.cells[{index}]", item, speculative=path is Path.SPECULATIVE)
        for index, item in enumerate(reader.sequence(f"{name}.cells", fields.get("cells")))
    )
    if not cells:
        raise reader.refusal(f"{name}.cells", [], "one cell or more")
    limit = fields.get("max_running_requests")
    return PathCalibration(
        cells,
        reader.number(f"{name}.prefill_seconds_per_token", fields.get("prefill_seconds_per_token", 0.0), 0),
        reader.numbers(f"{name}.drain_seconds", fields.get("drain_seconds", []), 0),
        None if limit is None else reader.whole(f"{name}.max_running_requests", limit),
    )


def _cell(reader: Reader, where: str, value: object, *, speculative: bool) -> Cell:
    fields = reader.mapping(where, value, _CELL if speculative else _CELL[:2])
    rates = reader.numbers(f"{where}.tokens_per_second", fields.get("tokens_per_second"), 1e-9)
    if not rates:
        raise reader.refusal(f"{where}.tokens_per_second", [], "one number or more")
    gains: tuple[float, ...] = ()
    if speculative:
        gains = reader.numbers(f"{where}.accept_length", fields.get("accept_length"), 1.0)
        if len(gains) != len(rates):
            allowed = f"a number for each of the {len(rates)} in tokens_per_second"
            raise reader.refusal(f"{where}.accept_length", list(gains), allowed)
    return Cell(reader.whole(f"{where}.concurrency", fields.get("concurrency")), rates, gains)


def _mixed(reader: Reader, where: str, value: object) -> MixedCell:
    fields = reader.mapping(where, value, _MIXED)
    baseline, speculative = (reader.whole(f"{where}.{name}", fields.get(name)) for name in _MIXED[:2])
    rates = [reader.number(f"{where}.{name}", fields.get(name), 1e-9) for name in _MIXED[2:]]
    return MixedCell(baseline, speculative, *rates)
