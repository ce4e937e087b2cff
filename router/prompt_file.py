"""Prompts in a file: one a line, or JSON lines with a text, or with messages, and perhaps a group."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

MAX_FILE_BYTES = 16 << 20
MAX_PROMPTS = 100_000
ALLOWED = (
    'a JSON string, or {"prompt": "…"}, or {"messages": [{"role": "…", "content": "…"}, …]}; '
    'both may have "group": "…"'
)

Messages = list[dict[str, str]]


class PromptsError(Exception):
    """The file of prompts cannot be used; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Line:
    """One prompt. `group`: the kind of text that it leads to, so that kinds can be measured apart."""

    number: int
    prompt: str | Messages
    group: str | None = None


def read_lines(path: Path, most: int = MAX_PROMPTS) -> tuple[Line, ...]:
    """The prompts of a file; `.jsonl` holds JSON lines, any other name plain text.

    Args:
        most: prompts that it may hold.

    Raises:
        PromptsError: it cannot be read, or a line is no prompt.
    """
    text = _read(path)
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not 0 < len(lines) <= most:
        raise PromptsError(f"{path}: holds {len(lines)} prompts; allowed: 1 to {most}")
    if path.suffix != ".jsonl":
        return tuple(Line(number, line.rstrip("\r")) for number, line in lines)
    return tuple(_structured(path, number, line) for number, line in lines)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise PromptsError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise PromptsError(f"{path}: is not UTF-8 (byte {error.start})") from None
    if len(data) > MAX_FILE_BYTES:
        raise PromptsError(f"{path}: is too large; allowed: {MAX_FILE_BYTES >> 20} MiB")
    return text


def _structured(path: Path, number: int, line: str) -> Line:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise PromptsError(f"{path}:{number}: is not JSON") from None
    fields = value if isinstance(value, dict) else {"prompt": value}
    prompt: object = fields.get("messages", fields.get("prompt"))
    group: object = fields.get("group")
    if group is None or _is_text(group):
        if _is_text(prompt):
            return Line(number, prompt, group)
        if _is_messages(prompt):
            return Line(number, prompt, group)
    raise PromptsError(f"{path}:{number}: is no prompt; allowed: {ALLOWED}")


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value)


def _is_messages(value: object) -> TypeGuard[Messages]:
    return isinstance(value, list) and bool(value) and all(_is_message(each) for each in value)


def _is_message(value: object) -> bool:
    if not isinstance(value, dict) or set(value) != {"role", "content"}:
        return False
    return all(_is_text(each) for each in value.values())
