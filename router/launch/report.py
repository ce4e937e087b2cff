"""A plan as tables of text and as plain JSON values."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from router.core.words import Path
from router.launch.flags import FlagCheck
from router.launch.plan import Command, EnginePlan, GpuMemory, Option, Plan, Refusal
from router.launch.plan.shapes import GIB

LENGTHS = (1024, 4096, 16384, 65536)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of equal length under a head."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def memory_table(plan: Plan) -> Table:
    """What each engine may take on one of its GPUs, in GiB, and what stays free."""
    parts = [_parts(engine) for engine in plan.engines]
    rows = [(name, *(_gib(part[name]) for part in parts)) for name in parts[0]]
    rows.append(("total", *(_gib(engine.total) for engine in plan.engines)))
    rows.append(("KV tokens", *(_tokens(engine) for engine in plan.engines)))
    rows.append(("bytes a token", *(_cell(engine) for engine in plan.engines)))
    rows.append(("GPUs", *(_span(engine.gpus) for engine in plan.engines)))
    return Table("Per GPU, GiB", ("", *(engine.path.value for engine in plan.engines)), tuple(rows))


def gpu_table(plan: Plan) -> Table:
    """Free now and free at the end, one row for GPUs that are alike."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for gpu in plan.gpus:
        key = (gpu.name, _gib(gpu.total), _gib(gpu.free), _gib(plan.spare(gpu.index)), _others(gpu))
        groups.setdefault(key, []).append(gpu.index)
    rows = tuple((_span(tuple(own)), *(str(part) for part in key)) for key, own in groups.items())
    return Table("GPUs, GiB", ("GPU", "card", "total", "free now", "stays free", "others on it"), rows)


def requests_table(plan: Plan) -> Table:
    """How many requests of which length (prompt and answer) run at once on each path."""
    lengths = [length for length in LENGTHS if length < plan.wishes.context] + [plan.wishes.context]
    rows = tuple((str(length), *(_requests(engine, length) for engine in plan.engines)) for length in lengths)
    head = ("tokens each", *(engine.path.value for engine in plan.engines))
    return Table("Requests at a time, by length", head, rows)


def tier_lines(plan: Plan) -> Iterator[str]:
    """The tiers of an adaptive engine, with the draft tokens that go with them."""
    for engine in plan.engines:
        for tier in engine.profile.tiers:
            steps = ", ".join(f"{step} (draft tokens {step + 1})" for step in tier.steps)
            yield f"from batch size {tier.batch} on: steps {steps}"


def command_text(command: Command) -> str:
    """As one would type it; the files it needs are not part of it."""
    env = [f"{name}={shlex.quote(value)}" for name, value in command.env.items()]
    return " ".join([*env, shlex.join(command.argv)])


def plan_json(
    plan: Plan, commands: Mapping[Path, Command], checks: Mapping[Path, FlagCheck]
) -> dict[str, Any]:
    """The object that `--json` prints; sizes are bytes per GPU."""
    return {
        "fits": True,
        "model": plan.model.name,
        "draft": plan.draft.name if plan.draft else None,
        "placement": plan.placement.value,
        "hardware": plan.hardware.name,
        "measured": plan.model.measured,
        "engines": [_engine_json(engine, commands, checks) for engine in plan.engines],
        "gpus": [
            {"index": gpu.index, "total": gpu.total, "free": gpu.free, "stays_free": plan.spare(gpu.index)}
            for gpu in plan.gpus
        ],
        "warnings": list(plan.warnings),
    }


def refusal_json(refusal: Refusal) -> dict[str, Any]:
    """The object that `--json` prints for a refusal."""
    return {
        "fits": False,
        "kind": refusal.kind.value,
        "reason": refusal.reason,
        "arithmetic": list(refusal.arithmetic),
        "options": [_option_json(option, option is refusal.recommended) for option in refusal.options],
    }


def alone_json(profile: str, found: Plan | Refusal) -> dict[str, Any]:
    """One engine that has the GPUs to itself, in short."""
    if isinstance(found, Refusal):
        return {"profile": profile, "fits": False, "reason": found.reason}
    (engine,) = found.engines
    return {
        "profile": profile,
        "fits": True,
        "tokens": engine.tokens,
        "max_running_requests": engine.running,
    }


def _option_json(option: Option, recommended: bool) -> dict[str, Any]:
    return {
        "title": option.title,
        "config": option.config,
        "fits": option.plan is not None,
        "recommended": recommended,
        "says": option.says,
    }


def _engine_json(
    engine: EnginePlan, commands: Mapping[Path, Command], checks: Mapping[Path, FlagCheck]
) -> dict[str, Any]:
    command, check = commands[engine.path], checks.get(engine.path)
    return {
        "path": engine.path.value,
        "profile": engine.profile.name,
        "gpus": list(engine.gpus),
        "memory": {**_parts(engine), "total": engine.total},
        "tokens": engine.tokens,
        "bytes_per_token": None if engine.tokens is None else engine.cell.total,
        "max_running_requests": engine.running,
        "mem_fraction_static": engine.fraction,
        "fraction_is_final": engine.before == 0,
        "argv": list(command.argv),
        "env": dict(command.env),
        "files": dict(command.files),
        "flags": {"checked_by": check.source, "problems": list(check.problems)} if check else None,
    }


def _parts(engine: EnginePlan) -> dict[str, int]:
    own = engine.fixed
    return {
        "context + NCCL": own.context,
        "weights": own.weights,
        "draft": own.draft,
        "KV pool": engine.kv_bytes,
        "graphs": own.graphs,
        "activations": own.activations,
        "request table": own.table,
        "workspace": own.workspace,
        "feature cache": own.features,
    }


def _gib(size: int) -> str:
    return f"{size / GIB:.2f}"


def _tokens(engine: EnginePlan) -> str:
    return "measured" if engine.tokens is None else str(engine.tokens)


def _cell(engine: EnginePlan) -> str:
    return "measured" if engine.tokens is None else str(engine.cell.total)


def _requests(engine: EnginePlan, length: int) -> str:
    return "measured" if engine.tokens is None else str(min(engine.tokens // length, engine.running))


def _others(gpu: GpuMemory) -> str:
    return ", ".join(f"pid {each.pid} {each.name} {_gib(each.used)}" for each in gpu.processes) or "-"


def _span(indices: Sequence[int]) -> str:
    if len(indices) > 1 and list(indices) == list(range(indices[0], indices[-1] + 1)):
        return f"{indices[0]}-{indices[-1]}"
    return ", ".join(str(index) for index in indices)
