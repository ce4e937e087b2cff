"""`spec-router bench` with bad input: exit status 2, and a message with place, value and what is allowed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from router.cli.main import app

URL = "http://127.0.0.1:9"


def bench(*args: str) -> Result:
    return CliRunner().invoke(app, ["bench", *args])


def said(result: Result) -> str:
    """One line, without the frame around it."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.output).split())


@pytest.mark.parametrize("value", ["", "0", "-1", "1,,2", "1.5", "four", "1,100001", "1;2"])
def test_concurrencies(value: str) -> None:
    result = bench(URL, f"--concurrency={value}")
    assert result.exit_code == 2
    allowed = "whole numbers above 0 and at most 100000, with commas between"
    assert said(result) == f"--concurrency {value!r} is not allowed; allowed: {allowed}"


@pytest.mark.parametrize("value", ["", "0", "-0.5", "nan", "inf", "1,", "fast"])
def test_rates(value: str) -> None:
    result = bench(URL, f"--rate={value}")
    assert result.exit_code == 2
    assert said(result).startswith(f"--rate {value!r} is not allowed; allowed: numbers above 0")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--seconds", "0"),
        ("--seconds", "nan"),
        ("--seconds", "inf"),
        ("--warm-up", "-1"),
        ("--warm-up", "inf"),
        ("--timeout", "0"),
        ("--timeout", "nan"),
        ("--temperature", "2.5"),
        ("--max-tokens", "0"),
        ("--repeats", "0"),
        ("--processes", "0"),
        ("--prefix-tokens", "0"),
        ("--seed", "x"),
    ],
)
def test_numbers_out_of_range(option: str, value: str) -> None:
    result = bench(URL, option, value)
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in said(result)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["http://127.0.0.1"], "URL 'http://127.0.0.1' cannot be used; allowed: http://HOST:PORT"),
        (
            [URL, "--route", "/generate"],
            "route '/generate' cannot be measured; allowed: /v1/chat/completions,",
        ),
        ([URL, "--group", "chat"], "group 'chat' is not among the prompts; allowed: open, copy"),
        ([URL, "--prompts", "/absent.jsonl"], "/absent.jsonl: cannot be read: No such file or directory"),
        (
            [URL, "--csv", "/absent/cells.csv"],
            "/absent/cells.csv cannot be written; allowed: a file in a folder",
        ),
        ([URL, "--csv", "/tmp"], "/tmp cannot be written; allowed: a file in a folder that is there"),
    ],
)
def test_what_cannot_be_measured(args: list[str], message: str) -> None:
    result = bench(*args)
    assert result.exit_code == 2
    assert said(result).startswith(message)


def test_a_picture_of_an_unknown_kind(tmp_path: Path) -> None:
    """Said before the hour of measuring, not after it."""
    pytest.importorskip("matplotlib")
    result = bench(URL, "--plot", str(tmp_path / "a.gif"))
    assert result.exit_code == 2
    assert said(result).endswith("a.gif is no picture; allowed: .svg, .png, .pdf")


def test_a_picture_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    result = bench(URL, "--plot", "/tmp/a.svg")
    assert result.exit_code == 2
    assert said(result) == "plots need matplotlib: pip install 'spec-router[plots]'"


def test_nobody_there() -> None:
    """Port 9 of the loopback: nothing listens. With a model named it is the same."""
    for args in ([], ["--model", "mine"]):
        result = bench(URL, *args)
        assert result.exit_code == 4
        assert said(result) == f"{URL}: no answer (ConnectError)"
