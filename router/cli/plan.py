"""`spec-router plan`: do two engines fit on these GPUs, with which pools and which flags?"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError
from rich.console import Console

from router.cli.plan_view import PlanView
from router.config import ConfigError, load_config
from router.config.errors import Invalid
from router.config.launch import Launch
from router.core.words import Path, Placement
from router.launch.files import LaunchFileError
from router.launch.flags import FlagCheck, check_flags
from router.launch.plan import Command, Plan, engine_command
from router.launch.report import alone_json, plan_json, refusal_json
from router.launch.request import Request, deciding_high, ports_of, read_request

WRONG_INPUT = 2
DOES_NOT_FIT = 3


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How the command was called. `changes` are keys of `launch`, nested, and win over the file."""

    config: FilePath | None
    changes: Mapping[str, Any]
    placement: Placement | None = None
    check_flags: bool = False
    as_json: bool = False


class WrongInput(ValueError):
    """What was given cannot be planned with; the text says what and what is allowed."""


def plan(options: PlanOptions) -> int:
    """Print the plan; returns the exit status: 0 it fits, 2 the input is wrong, 3 it does not fit."""
    try:
        launch, placement, high = _inputs(options)
        request = read_request(launch, placement, high)
        found = request.plan()
        view = PlanView(Console())
        if not isinstance(found, Plan):
            if options.as_json:
                _say({"placement": placement.value, **refusal_json(found)}, request)
            else:
                view.refusal(found)
            return DOES_NOT_FIT
        commands = _commands(found, launch)
        checks = _checks(commands, launch) if options.check_flags else {}
    except (ConfigError, LaunchFileError, WrongInput) as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT
    if options.as_json:
        _say(plan_json(found, commands, checks), request)
    else:
        view.plan(found, commands, checks)
    return DOES_NOT_FIT if any(check.problems for check in checks.values()) else 0


def _say(shown: dict[str, Any], request: Request) -> None:
    alone = [alone_json(profile, found) for profile, found in request.alone().items()]
    print(json.dumps({**shown, "alone": alone}, indent=2))


def _inputs(options: PlanOptions) -> tuple[Launch, Placement, int | None]:
    if options.config is None:
        return _launch({}, options.changes), options.placement or Placement.SHARED, None
    config = load_config(options.config, os.environ)
    if config.launch is None and "model" not in options.changes:
        raise WrongInput(
            f"{options.config}: launch: is missing; allowed: the section launch, or --model and --tp"
        )
    base = config.launch.model_dump() if config.launch else {}
    if config.pairs[0].speculative is None:
        base = {**base, "profile": "baseline"}
    placement = options.placement or config.pairs[0].placement
    high = None if placement is Placement.SINGLE else deciding_high(config)
    return _launch(base, options.changes), placement, high


def _launch(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Launch:
    try:
        return Launch.model_validate(_merged(base, changes))
    except ValidationError as error:
        raise WrongInput(
            "\n".join(_explained(detail) for detail in error.errors(include_url=False))
        ) from None


def _explained(detail: Any) -> str:
    wrong = detail.get("ctx", {}).get("error")
    steps = [*detail["loc"], *(wrong.at if isinstance(wrong, Invalid) else ())]
    place = ".".join(("launch", *(str(step) for step in steps)))
    if detail["type"] == "missing":
        return f"{place}: is missing; allowed: -c FILE, or --{steps[-1]}"
    return (
        f"{place}: {wrong.what}; allowed: {wrong.allowed}"
        if isinstance(wrong, Invalid)
        else f"{place}: is wrong"
    )


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(base)
    for key, value in changes.items():
        inner = found.get(key)
        if isinstance(value, dict):
            found[key] = _merged(inner if isinstance(inner, dict) else {}, value)
        else:
            found[key] = value
    return found


def _commands(plan: Plan, launch: Launch) -> dict[Path, Command]:
    return {
        engine.path: engine_command(
            plan, engine.path, None, ports_of(launch, engine.path), launch.sglang.python
        )
        for engine in plan.engines
    }


def _checks(commands: Mapping[Path, Command], launch: Launch) -> dict[Path, FlagCheck]:
    return {
        path: check_flags(command.argv, launch.sglang.python, launch.sglang.version)
        for path, command in commands.items()
    }
