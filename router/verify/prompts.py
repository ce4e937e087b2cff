"""What the engines are asked: a built-in set, or a file."""

from __future__ import annotations

import json
from pathlib import Path

# Prose, facts, code, numbers, structure, other scripts, repetition: near-ties are commonest where a text
# could go on in several ways, and drafts are longest where it could not.
BUILT_IN: tuple[str, ...] = (
    "The capital of France is",
    "Write a short story about a lighthouse keeper who finds a letter in a bottle.\n\n",
    "Explain in plain words why the sky is blue.\n\n",
    "def fibonacci(n: int) -> int:\n    ",
    "SELECT name, COUNT(*) FROM orders\n",
    'Return a JSON object with the keys "name", "age" and "city":\n{',
    "1, 1, 2, 3, 5, 8, 13,",
    "Question: A train covers 120 km in 1.5 hours. What is its mean speed?\nAnswer: Let us think",
    "Translate into German: I would like a cup of coffee, please.\n",
    "東京は日本の",
    "Сегодня хорошая погода, поэтому мы",
    "Once upon a time, in a village at the edge of the forest, there lived",
    "List five uses of a paper clip:\n1.",
    "the cat sat on the mat. the cat sat on the mat. the cat sat on",
    "Dear Sir or Madam,\n\nI am writing to complain about",
    "| country | capital | population |\n|---|---|---|\n| Italy |",
)

MAX_FILE_BYTES = 16 << 20
MAX_PROMPTS = 1000


class PromptsError(Exception):
    """The file of prompts cannot be used; the text says where and why."""


def read_prompts(path: Path) -> tuple[str, ...]:
    """The prompts of a file: one a line, or, in a `.jsonl` file, one JSON string or `{"prompt": …}` a line.

    Raises:
        PromptsError: it cannot be read, or a line is no prompt.
    """
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
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    structured = path.suffix == ".jsonl"
    prompts = tuple(
        _structured(path, number, line) if structured else line.rstrip("\r") for number, line in lines
    )
    if not 0 < len(prompts) <= MAX_PROMPTS:
        raise PromptsError(f"{path}: holds {len(prompts)} prompts; allowed: 1 to {MAX_PROMPTS}")
    return prompts


def _structured(path: Path, number: int, line: str) -> str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise PromptsError(f"{path}:{number}: is not JSON") from None
    prompt = value.get("prompt") if isinstance(value, dict) else value
    if not isinstance(prompt, str) or not prompt:
        raise PromptsError(f'{path}:{number}: is no prompt; allowed: a JSON string, or {{"prompt": "…"}}')
    return prompt
