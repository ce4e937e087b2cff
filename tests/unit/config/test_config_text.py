"""Files that cannot be read as one plain YAML mapping."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from router.config import ConfigError, load_config

Problems = Callable[..., list[str]]

TEXTS = [
    ("", "c.yaml: is empty; allowed: a mapping; pairs is the one key that is needed"),
    ("# only a comment\n", "c.yaml: is empty; allowed: a mapping; pairs is the one key that is needed"),
    ("- a\n", "c.yaml:1: is not a mapping of keys to values; allowed: key: value, one a line"),
    ("text\n", "c.yaml:1: is not a mapping of keys to values; allowed: key: value, one a line"),
    ("server:\n\tport: 1\n", "c.yaml:2: is indented with a tab; allowed: spaces only"),
    ("server:\n  host: a\n\tport: 1\n", "c.yaml:3: is indented with a tab; allowed: spaces only"),
    ("server: {port: 1\n", "c.yaml:2: is not valid YAML: while parsing a flow mapping"),
    ("a: b: c\n", "c.yaml:1: is not valid YAML: mapping values are not allowed here"),
    ("a: 1\n---\nb: 1\n", "c.yaml:2: holds more than one YAML document; allowed: one document"),
    (
        "a: &x [1]\nb: [*x, *x]\n",
        "c.yaml:1: has a YAML anchor (&), alias (*) or tag (!); allowed: none of them",
    ),
    (
        "a: !!python/name:os.system 1\n",
        "c.yaml:1: has a YAML anchor (&), alias (*) or tag (!); allowed: none",
    ),
    ("a: !!str 1\n", "c.yaml:1: has a YAML anchor (&), alias (*) or tag (!); allowed: none of them"),
    ("a: " + "[" * 500, "c.yaml:1: is nested too deeply; allowed: at most 16 levels"),
    ("a:\n  \x01\n", "c.yaml:2: holds the character U+0001, which YAML does not allow"),
    ('a: "\\UFFFFFFFF"\n', "c.yaml: is not valid YAML: an escape in quoted text stands for no character"),
    (b"a: 1\nb: \xff\n", "c.yaml: is not UTF-8: byte 0xff in line 2; allowed: text in UTF-8"),
    ("a: 1\n".encode("utf-16"), "c.yaml: is not UTF-8: byte 0xff in line 1; allowed: text in UTF-8"),
    (b"#" * (256 * 1024 + 1), "c.yaml: is too large; allowed: at most 256 KiB"),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS, ids=range(len(TEXTS)))
def test_a_text_that_is_no_mapping(problems: Problems, text: str | bytes, expected: str) -> None:
    found = problems(text, pair="")
    assert len(found) == 1, found
    assert found[0].startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("server: {port: 1}\nserver: {port: 2}\n", "c.yaml:2: server: is given twice, first in line 1"),
        (
            "server:\n  port: 1\n  host: a\n  port: 1\n",
            "c.yaml:4: server.port: is given twice, first in line 2",
        ),
        ("? [a]\n: 1\n", "c.yaml:1: has a key that is not plain text"),
    ],
)
def test_keys_that_are_no_keys(problems: Problems, text: str, expected: str) -> None:
    assert problems(text) == [expected]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, expected in (
        (tmp_path / "none.yaml", "none.yaml: cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
        (tmp_path / "a\0b", "cannot be read: its name holds a zero byte"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_config(path, {})
        assert expected in str(caught.value)
