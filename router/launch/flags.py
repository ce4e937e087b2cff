"""Does the SGLang that will run know every flag of a command? Its own parser says so, else a shipped list."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from router.launch.files import LaunchFileError, parse_yaml

PARSER_TIMEOUT = 120.0
"""Seconds; importing SGLang imports torch."""

_MARK = "spec-router-flags:"
_ASK = f"""
import argparse, json, sys
import sglang
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser(prog="sglang")
ServerArgs.add_cli_args(parser)
def fail(message):
    print({_MARK!r} + json.dumps([sglang.__version__, message]))
    sys.exit(0)
parser.error = fail
parser.parse_args(json.loads(sys.argv[1]))
print({_MARK!r} + json.dumps([sglang.__version__, None]))
"""


@dataclass(frozen=True, slots=True)
class FlagCheck:
    """What checked the flags, and what it did not accept (empty: all is well)."""

    source: str
    problems: tuple[str, ...]


def shipped_versions() -> list[str]:
    """Releases whose flags are known without an installation."""
    folder = resources.files("router.launch") / "profiles" / "flags"
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir())


def check_flags(argv: Sequence[str], python: str, version: str) -> FlagCheck:
    """Ask the parser of the SGLang that `python` has; where it has none, the list of `version`.

    Args:
        argv: a whole command, `PYTHON -m sglang.launch_server FLAG...`.

    Raises:
        LaunchFileError: there is neither.
    """
    flags = list(argv[3:])
    asked = _ask_parser(flags, python)
    return asked if isinstance(asked, FlagCheck) else _check_list(flags, version, asked)


def _ask_parser(flags: list[str], python: str) -> FlagCheck | str:
    """The parser's answer, or why there is none."""
    try:
        done = subprocess.run(
            [python, "-c", _ASK, json.dumps(flags)],
            capture_output=True,
            text=True,
            timeout=PARSER_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{python} cannot be asked: {error}"
    for line in done.stdout.splitlines():
        if line.startswith(_MARK):
            version, problem = json.loads(line.removeprefix(_MARK))
            return FlagCheck(f"the parser of SGLang {version} in {python}", (problem,) if problem else ())
    last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    return f"{python} has no usable sglang: {last}"


def _check_list(flags: list[str], version: str, why: str) -> FlagCheck:
    known = _known(version)
    names = [flag.split("=", 1)[0] for flag in flags if flag.startswith("--")]
    unknown = tuple(f"unknown option: {name}" for name in names if name not in known)
    return FlagCheck(f"the shipped list of SGLang {version} ({why})", unknown)


def _known(version: str) -> frozenset[str]:
    if version not in shipped_versions():
        known = ", ".join(shipped_versions())
        raise LaunchFileError(f"sglang.version: there is no list of flags for {version!r}; allowed: {known}")
    file = resources.files("router.launch") / "profiles" / "flags" / f"{version}.yaml"
    names = parse_yaml(file.read_text(encoding="utf-8"), file.name)
    return frozenset(str(name) for name in names) if isinstance(names, list) else frozenset()
