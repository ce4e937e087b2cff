from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from router.cli.check import check

PAIR = "pairs: [{speculative: {url: 'http://one:1', api_key: hunter2}, baseline: {url: 'http://two:2'}}]\n"


def test_a_right_file_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(PAIR + "policy: {high: 20}\n")
    assert check(path, as_json=False) == 0
    as_yaml = capsys.readouterr()
    assert check(path, as_json=True) == 0
    as_json = capsys.readouterr()
    shown = yaml.safe_load(as_yaml.out)
    assert shown == json.loads(as_json.out)
    assert shown["policy"]["high"] == 20
    assert shown["server"]["max_body"] == "64MiB"
    assert "hunter2" not in as_yaml.out + as_json.out
    assert as_yaml.err == as_json.err == ""


def test_placeholders_are_noted_beside_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(PAIR)
    assert check(path, as_json=True) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["policy"]["high"] == 8
    assert "placeholders" in shown.err


@pytest.mark.parametrize("as_json", [True, False])
def test_a_wrong_file_is_told_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(PAIR + "policy: {high: 2}\nretry: {a: 1}\n")
    assert check(path, as_json) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line.split(" ")[0] for line in shown.err.splitlines()] == [f"{path}:2:", f"{path}:3:"]


def test_the_environment_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(PAIR + "server:\n  port: ${CHECK_TEST_PORT}\n")
    monkeypatch.setenv("CHECK_TEST_PORT", "8123")
    assert check(path, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["server"]["port"] == 8123
