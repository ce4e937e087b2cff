"""Bytes of all tensors of a checkpoint, without reading a tensor."""

from __future__ import annotations

import json
from pathlib import Path

from router.launch.files import LaunchFileError

INDEX = "model.safetensors.index.json"
MOST_HEADER = 512 << 20


def weight_bytes(folder: Path) -> int:
    """From the files' headers if all files are there, else from the index. Raises LaunchFileError.

    The headers come first because an index may be wrong (some count elements); the index alone is enough to
    plan on a machine that has only the small files of a checkpoint.
    """
    index = folder / INDEX
    if index.is_file():
        document = _index(index)
        names = sorted(set(document["weight_map"].values()))
        if names and all((folder / name).is_file() for name in names):
            return sum(_tensors(folder / name) for name in names)
        total = document.get("metadata", {}).get("total_size")
        if isinstance(total, int | float) and total > 0:
            return int(total)
        raise LaunchFileError(f"{index}: has no metadata.total_size, and not all weight files are there")
    files = [
        file for file in sorted(folder.glob("*.safetensors")) if not file.name.startswith("consolidated")
    ]
    if files:
        return sum(_tensors(file) for file in files)
    others = [*folder.glob("pytorch_model*.bin"), *folder.glob("*.gguf")]
    if others:
        return sum(file.stat().st_size for file in others)
    raise LaunchFileError(f"{folder}: has neither {INDEX} nor *.safetensors")


def _index(index: Path) -> dict[str, dict[str, str]]:
    try:
        document = json.loads(index.read_bytes())
        weight_map = document["weight_map"]
        if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
            raise TypeError("weight_map is not a mapping of names")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LaunchFileError(f"{index}: is not an index of safetensors files: {error!r}") from None
    return dict(document)


def _tensors(file: Path) -> int:
    """Bytes of the tensors of one file: all of it but the header."""
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            size = file.stat().st_size - 8 - length
            if not 0 < length <= MOST_HEADER or size < 0:
                raise ValueError("its header is longer than the file")
            header = json.loads(stream.read(length))
            end = max(
                (each["data_offsets"][1] for name, each in header.items() if name != "__metadata__"),
                default=0,
            )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LaunchFileError(f"{file}: is not a safetensors file: {error}") from None
    if end > size:
        raise LaunchFileError(f"{file}: is cut off: {size} bytes of tensors, {end} in its header")
    return int(end)
