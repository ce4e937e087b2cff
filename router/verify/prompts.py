"""What the engines are asked: a built-in set, or a file."""

from __future__ import annotations

from pathlib import Path

from router.prompt_file import PromptsError, read_lines

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

MAX_PROMPTS = 1000


def read_prompts(path: Path) -> tuple[str, ...]:
    """The prompts of a file: one a line, or, in a `.jsonl` file, one JSON string or `{"prompt": …}` a line.

    Raises:
        PromptsError: it cannot be read, or a line is no text.
    """
    found = []
    for line in read_lines(path, MAX_PROMPTS):
        if not isinstance(line.prompt, str):
            raise PromptsError(
                f'{path}:{line.number}: is no text; allowed: a JSON string, or {{"prompt": "…"}}'
            )
        found.append(line.prompt)
    return tuple(found)
