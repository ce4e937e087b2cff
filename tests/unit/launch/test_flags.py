"""Flags against an installed parser (a played one), and against the shipped lists."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from router.launch.files import LaunchFileError
from router.launch.flags import check_flags

PARSER = """
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", required=True)
        parser.add_argument("--cuda-graph-max-bs-decode", type=int)
        parser.add_argument("--cuda-graph-max-bs-prefill", type=int)
"""
COMMAND = ("python3", "-m", "sglang.launch_server", "--model-path", "/m")


@pytest.fixture
def python(tmp_path: Path) -> str:
    """An interpreter whose sglang is the parser above, and which is chatty as torch is."""
    package = tmp_path / "lib" / "sglang" / "srt"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("__version__ = '0.5.99'\nprint('a warning')\n")
    (package / "__init__.py").write_text("")
    (package / "server_args.py").write_text(PARSER)
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "lib"} exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return str(script)


def test_the_installed_parser_decides(python: str) -> None:
    found = check_flags((*COMMAND, "--cuda-graph-max-bs-decode", "8"), python, "0.5.23")
    assert (found.source, found.problems) == (f"the parser of SGLang 0.5.99 in {python}", ())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--cuda-graph-max-bs", "8"), "ambiguous option: --cuda-graph-max-bs could match"),
        (("--cuda-graph-max-bs-decode", "x"), "invalid int value: 'x'"),
        (("--nonsense",), "unrecognized arguments: --nonsense"),
    ],
)
def test_what_the_parser_says_is_passed_on(python: str, flags: tuple[str, ...], said: str) -> None:
    (problem,) = check_flags((*COMMAND, *flags), python, "0.5.23").problems
    assert said in problem


@pytest.mark.parametrize("python", [sys.executable, "/nowhere/python"])
def test_without_sglang_the_list_of_a_release_is_used_and_named(python: str) -> None:
    flags = (*COMMAND, "--cuda-graph-max-bs", "8", "--gated-launch-port=1")
    old, new = (check_flags(flags, python, version) for version in ("0.5.16", "0.5.23"))
    assert old.source.startswith(f"the shipped list of SGLang 0.5.16 ({python}")
    assert old.problems == ("unknown option: --gated-launch-port",)
    assert new.problems == ("unknown option: --cuda-graph-max-bs",)


def test_a_release_without_a_list() -> None:
    with pytest.raises(LaunchFileError, match=r"no list of flags for '0\.4'; allowed: 0\.5\.16, 0\.5\.23"):
        check_flags(COMMAND, "/nowhere/python", "0.4")
