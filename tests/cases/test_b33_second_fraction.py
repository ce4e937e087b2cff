"""B-33: the second engine's memory fraction is of what is free then, and that is measured.

Every combination is run on SGLang's sums as a pure function; a few also as processes on GPUs in a file.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path as FilePath

import pytest

from router.config.launch import Launch
from router.core.words import Path
from router.launch.plan import GpuMemory, Plan, Refusal, Wishes, make_plan
from router.launch.record import Folder
from router.launch.setup import CAP, DoesNotFit, Setup
from tests.support.fake_engine_memory import EngineFailed, Flags, Kv, Use, start, take
from tests.support.launching import DRAFT_BYTES, GIB, MODEL, MODEL_BYTES, B, Launcher, S
from tests.unit.launch.planned import PROFILES, shape

SPLITS, CARDS, WIDTHS, ORDERS, FOREIGN = (0.6, 0.3), (80, 141), (1, 2, 4, 8), (S, B), (0, 5)


@pytest.fixture
def launcher(tmp_path: FilePath) -> Iterator[list[Launcher]]:
    """What a test puts in is cleaned up."""
    made: list[Launcher] = []
    yield made
    for each in made:
        each.clean()


def machine(size: int, width: int, taken: int) -> tuple[GpuMemory, ...]:
    """Equal GPUs, with something already on the first."""
    free = [size * GIB - (taken * GIB if index == 0 else 0) for index in range(width)]
    return tuple(GpuMemory(index, "x", size * GIB, left) for index, left in enumerate(free))


def plan_of(tmp_path: FilePath, gpus: tuple[GpuMemory, ...], **wishes: object) -> Plan | Refusal:
    """Two engines of a model of 16 GB."""
    model = shape(tmp_path, "model", MODEL, MODEL_BYTES)
    draft = shape(tmp_path, "draft", {**MODEL, "num_hidden_layers": 1}, DRAFT_BYTES)
    wanted = replace(Wishes(tp=len(gpus), context=8192), **wishes)  # type: ignore[arg-type]
    profile, hardware = PROFILES.speculation("eagle3-chain"), PROFILES.hardware("generic")
    return make_plan(model, draft, gpus, wanted, profile, hardware)


def setup_of(plan: Plan, folder: FilePath) -> Setup:
    """A launch of that plan."""
    launch = Launch.model_validate({"model": plan.model.path, "tp": plan.wishes.tp})
    paths = tuple(engine.path for engine in plan.engines)
    return Setup(plan, paths, launch, {}, Folder(folder), True, {}, lambda: 0.0)


def run_engine(setup: Setup, path: Path, free: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Start it with the flags that the launcher chooses; its pool, and what is free after its burn-in."""
    engine = setup.plan.engine(path)
    gpus = tuple(replace(gpu, free=left) for gpu, left in zip(setup.plan.gpus, free, strict=True))
    chosen = setup.choose(path, gpus, ())
    argv = setup.command(path, chosen).argv
    flags = Flags(
        float(argv[argv.index("--mem-fraction-static") + 1]),
        int(argv[argv.index(CAP) + 1]),
        check_balance=not setup.plan.wishes.allow_uneven,
    )
    own = engine.fixed
    kv = Kv(engine.cell.budget, engine.cell.budget, engine.cell.excess)
    use = Use(
        int(own.context * 0.8), own.weights, own.draft, int(own.headroom * 0.3), int(own.headroom * 0.2)
    )
    started = start(free, flags, kv, use)
    return started.tokens, take(started.free, use.late, "burn-in")


@pytest.mark.parametrize(
    ("share", "size", "width", "first", "foreign"),
    list(itertools.product(SPLITS, CARDS, WIDTHS, ORDERS, FOREIGN)),
)
def test_pools_are_what_was_asked_for(
    tmp_path: FilePath, share: float, size: int, width: int, first: Path, foreign: int
) -> None:
    gpus = machine(size, width, foreign)
    plan = plan_of(tmp_path, gpus, kv_share=share, first=first, allow_uneven=True)
    assert isinstance(plan, Plan), plan.reason
    setup = setup_of(plan, tmp_path)
    free = tuple(gpu.free for gpu in gpus)
    tokens = {}
    for engine in plan.engines:
        tokens[engine.path], free = run_engine(setup, engine.path, free)
    size_of = {path: tokens[path] * plan.engine(path).cell.total for path in Path}
    total = sum(size_of.values())
    assert size_of[S] / total == pytest.approx(share, abs=0.05)
    for path in Path:
        assert tokens[path] == pytest.approx(plan.engine(path).tokens, rel=0.05)
    assert min(free) >= plan.wishes.reserves.spare


@pytest.mark.parametrize(("size", "width"), list(itertools.product(CARDS, WIDTHS)))
def test_a_restart_beside_the_other_gets_its_pool_again(tmp_path: FilePath, size: int, width: int) -> None:
    gpus = machine(size, width, 0)
    plan = plan_of(tmp_path, gpus, kv_share=0.3)
    assert isinstance(plan, Plan), plan.reason
    setup = setup_of(plan, tmp_path)
    empty = tuple(gpu.free for gpu in gpus)
    first, after_first = run_engine(setup, S, empty)
    _, after_both = run_engine(setup, B, after_first)
    # The speculative engine dies: what it held is free again.
    freed = tuple(now + (was - then) for now, was, then in zip(after_both, empty, after_first, strict=True))
    again, _ = run_engine(setup, S, freed)
    assert again == pytest.approx(first, rel=0.02)
    assert pool_with(plan, plan.engine(S).fraction, freed) < 0.8 * first  # what its first fraction would give


def pool_with(plan: Plan, fraction: float, free: tuple[int, ...]) -> int:
    """Tokens of a speculative engine without a cap; 0 if it would not start."""
    own, cell = plan.engine(S).fixed, plan.engine(S).cell
    use = Use(own.context, own.weights, own.draft, 0, 0)
    kv = Kv(cell.budget, cell.budget, cell.excess)
    try:
        return start(free, Flags(fraction, None, check_balance=False), kv, use).tokens
    except EngineFailed:
        return 0


def test_memory_that_vanished_meanwhile_makes_the_second_smaller_or_refuses_it(tmp_path: FilePath) -> None:
    gpus = machine(80, 2, 0)
    plan = plan_of(tmp_path, gpus)
    assert isinstance(plan, Plan), plan.reason
    setup = setup_of(plan, tmp_path)
    _, free = run_engine(setup, S, tuple(gpu.free for gpu in gpus))
    planned = plan.engine(B).tokens or 0
    smaller, _ = run_engine(setup, B, tuple(left - 8 * GIB for left in free))
    assert smaller < planned
    with pytest.raises(DoesNotFit, match="GiB would be left for KV"):
        run_engine(setup, B, tuple(left - 48 * GIB for left in free))


async def test_both_orders_as_processes(tmp_path: FilePath, launcher: list[Launcher]) -> None:
    wanted = {"kv_share": 0.3, "first": "baseline"}
    own = Launcher(tmp_path, (4, 80), {"launch": wanted})
    launcher.append(own)
    plan = own.plan
    own.start("--no-serve", "--json")
    await own.says("all engines are up")
    shown = json.loads(own.printed)
    assert [start["path"] for start in own.starts()] == ["baseline", "speculative"]
    for engine in shown["engines"]:
        assert engine["problems"] == []
        assert engine["pool_tokens"] == pytest.approx(plan.engine(Path(engine["path"])).tokens, rel=0.05)
        assert min(engine["free"].values()) >= GIB
    assert own.engine(S)["batch"] == plan.engine(S).running
    assert own.engine(B)["batch"] == plan.engine(B).running
    own.signal(signal.SIGTERM)
    assert await own.ends() == 0
    own.nothing_left()


async def test_without_a_cap_the_engine_sizes_its_pool(tmp_path: FilePath, launcher: list[Launcher]) -> None:
    own = Launcher(tmp_path, (1, 80))
    launcher.append(own)
    plan = own.plan
    own.start("--no-serve", "--no-token-cap", "--json")
    await own.says("all engines are up")
    for engine in json.loads(own.printed)["engines"]:
        assert engine["max_total_tokens"] is None
        assert engine["problems"] == []
        assert engine["pool_tokens"] == pytest.approx(plan.engine(Path(engine["path"])).tokens, rel=0.05)
    assert [start["cap"] for start in own.starts()] == [None, None]


async def test_what_cannot_fit_is_refused_before_anything_starts(
    tmp_path: FilePath, launcher: list[Launcher]
) -> None:
    own = Launcher(tmp_path, (2, 24), {"launch": {"context": 32768, "concurrency": {"speculative": 64}}})
    launcher.append(own)
    foreign = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=subprocess.PIPE)
    try:
        own.gpus.occupy(1, 5 * GIB, foreign.pid, "their-training")
        own.start()
        assert await own.ends() == 3
        assert own.starts() == []
        assert f"pid {foreign.pid} (their-training) 5.0 GiB" in own.said
        assert "GPU 0: 24.0 of 24.0 GiB free" in own.said
        assert foreign.returncode is None
    finally:
        foreign.kill()
        await foreign.wait()


async def test_uneven_gpus_are_refused_before_anything_starts(
    tmp_path: FilePath, launcher: list[Launcher]
) -> None:
    own = Launcher(tmp_path, (2, 80), foreign={0: 12 * GIB})
    launcher.append(own)
    own.start()
    assert await own.ends() == 3
    assert own.starts() == []
    assert "refused (uneven)" in own.said
    assert "somebody-else" in own.said


async def test_one_engine_beside_a_running_one(tmp_path: FilePath, launcher: list[Launcher]) -> None:
    """As in containers: the other's memory is somebody's, and its processes cannot be seen."""
    own = Launcher(tmp_path, (2, 80))
    launcher.append(own)
    plan = own.plan
    for gpu in (0, 1):
        own.gpus.occupy(gpu, plan.engine(S).total - GIB)
    own.start("--engine", "baseline")
    await own.says("all engines are up")
    assert [start["path"] for start in own.starts()] == ["baseline"]
    assert own.starts()[0]["cap"] == pytest.approx(plan.engine(B).tokens, rel=0.05)
    assert own.router_status() is None
    own.signal(signal.SIGTERM)
    assert await own.ends() == 0
    own.nothing_left()


async def test_one_engine_that_finds_too_little_ends_with_3(
    tmp_path: FilePath, launcher: list[Launcher]
) -> None:
    own = Launcher(tmp_path, (1, 80))
    launcher.append(own)
    own.gpus.occupy(0, 70 * GIB)
    own.start("--engine", "baseline")
    assert await own.ends() == 3
    assert own.starts() == []
    assert "GiB would be left for KV" in own.said
    assert "KV tokens" in own.said  # the plan
