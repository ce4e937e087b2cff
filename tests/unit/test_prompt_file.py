"""Prompts from a file: plain lines, or JSON lines; an error names the file, the line and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.prompt_file import MAX_FILE_BYTES, Line, PromptsError, read_lines


def written(folder: Path, text: str | bytes, name: str = "mine.jsonl") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_plain_text_is_a_prompt_a_line(tmp_path: Path) -> None:
    """Empty lines are none; a byte order mark and a carriage return are no part of a prompt."""
    file = written(tmp_path, b"\xef\xbb\xbfone\r\n\n  \n{two}\n", "mine.txt")
    assert read_lines(file) == (Line(1, "one"), Line(4, "{two}"))


def test_a_line_separator_inside_a_prompt_ends_no_line(tmp_path: Path) -> None:
    """Only a line feed does; U+2028 may stand in a text."""
    assert read_lines(written(tmp_path, "one\u2028two\n", "mine.txt")) == (Line(1, "one\u2028two"),)


def test_json_lines(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}]
    file = written(
        tmp_path,
        '"one"\n\n{"prompt": "two", "group": "chat", "id": 7}\n'
        '{"messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}]}\n',
    )
    assert read_lines(file) == (Line(1, "one"), Line(3, "two", "chat"), Line(4, messages))


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "7",
        "null",
        '""',
        '{"prompt": ""}',
        '{"prompt": "a", "group": ""}',
        '{"prompt": "a", "group": 7}',
        '{"messages": []}',
        '{"messages": [{"role": "user"}]}',
        '{"messages": [{"role": "user", "content": "a", "name": "b"}]}',
        '{"messages": [{"role": "user", "content": [{"type": "text"}]}]}',
    ],
)
def test_what_is_no_prompt_is_named_by_its_line(line: str, tmp_path: Path) -> None:
    file = written(tmp_path, f'"fine"\n{line}\n')
    with pytest.raises(PromptsError) as caught:
        read_lines(file)
    assert str(caught.value).startswith(f"{file}:2: is no prompt; allowed: a JSON string, or ")


def test_what_is_no_json_is_named_by_its_line(tmp_path: Path) -> None:
    file = written(tmp_path, '"fine"\n\n{"prompt": \n')
    with pytest.raises(PromptsError, match=f"{file}:3: is not JSON"):
        read_lines(file)


def test_brackets_without_end_are_no_json(tmp_path: Path) -> None:
    file = written(tmp_path, "[" * 100_000)
    with pytest.raises(PromptsError, match=":1: is not JSON"):
        read_lines(file)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(PromptsError, match="absent: cannot be read: No such file"):
        read_lines(tmp_path / "absent")
    with pytest.raises(PromptsError, match=r"mine.txt: holds 0 prompts; allowed: 1 to 100000"):
        read_lines(written(tmp_path, "\n \n", "mine.txt"))
    with pytest.raises(PromptsError, match=r"holds 3 prompts; allowed: 1 to 2"):
        read_lines(written(tmp_path, "a\nb\nc", "mine.txt"), most=2)
    with pytest.raises(PromptsError, match=r"is not UTF-8 \(byte 2\)"):
        read_lines(written(tmp_path, b"ab\xff"))
    with pytest.raises(PromptsError, match="is too large; allowed: 16 MiB"):
        read_lines(written(tmp_path, b"a" * (MAX_FILE_BYTES + 1)))
