"""Files of prompts."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.prompt_file import PromptsError
from router.verify.prompts import BUILT_IN, read_prompts


def test_the_built_in_prompts_are_different() -> None:
    assert len(set(BUILT_IN)) == len(BUILT_IN) >= 12


def test_one_prompt_a_line(tmp_path: Path) -> None:
    file = tmp_path / "p.txt"
    file.write_bytes("\ufeffone\r\n\n  two \n東京".encode())
    assert read_prompts(file) == ("one", "  two ", "東京")


def test_one_json_value_a_line(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('"one\\ntwo"\n{"prompt": "three", "id": 5}\n')
    assert read_prompts(file) == ("one\ntwo", "three")


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("p.txt", b"", "holds 0 prompts; allowed: 1 to 1000"),
        ("p.txt", b"x\n" * 1001, "holds 1001 prompts"),
        ("p.txt", b"\xff", "is not UTF-8 (byte 0)"),
        ("p.jsonl", b'"a"\n{', ":2: is not JSON"),
        ("p.jsonl", b"[1]", ":1: is no prompt"),
        ("p.jsonl", b'{"text": "a"}', ":1: is no prompt"),
        ("p.jsonl", b'""', ":1: is no prompt"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    file = tmp_path / name
    file.write_bytes(data)
    with pytest.raises(PromptsError) as wrong:
        read_prompts(file)
    assert says in str(wrong.value)
    assert str(file) in str(wrong.value)


def test_a_file_that_is_not_there_or_too_large(tmp_path: Path) -> None:
    with pytest.raises(PromptsError, match="cannot be read"):
        read_prompts(tmp_path / "none")
    file = tmp_path / "large"
    with file.open("wb") as stream:
        stream.truncate((16 << 20) + 1)
    with pytest.raises(PromptsError, match="too large"):
        read_prompts(file)
