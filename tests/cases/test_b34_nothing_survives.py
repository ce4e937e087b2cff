"""B-34: no process of an engine survives, whatever ends the launcher or the engine.

Each engine has three workers that mind no SIGTERM: a child, an orphan in a session of its own that holds the
GPU memory and the port, and an orphan without environment.
"""

from __future__ import annotations

import os
import pty
import signal
import time
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

import pytest

from router.launch.procfs import processes
from tests.cases.kit.waiting import until
from tests.support.fake_gpus import start_of
from tests.support.launching import B, Launcher, S

WORKERS = {"speculative": {"workers": True}, "baseline": {"workers": True}}


@pytest.fixture
def launch(tmp_path: FilePath) -> Iterator[Any]:
    """Makes launchers; what they leave is killed."""
    made: list[Launcher] = []

    def make(**settings: Any) -> Launcher:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Launcher(folder, **{"knobs": WORKERS, **settings}))
        return made[-1]

    yield make
    for each in made:
        each.clean()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_leaves_nothing(launch: Any, number: signal.Signals) -> None:
    own = launch()
    own.start()
    await own.serves()
    assert len(own.marked()) >= 1 + 2 * 4
    began = time.monotonic()
    own.signal(number)
    assert await own.ends(15) == 0
    assert time.monotonic() - began < 15
    own.nothing_left()
    assert not (own.state / "state.json").exists()


async def test_a_signal_while_the_second_loads_leaves_nothing(launch: Any) -> None:
    own = launch(knobs={"speculative": {"workers": True}, "baseline": {"workers": True, "load_step": 30.0}})
    own.start()
    await own.says("baseline: weights 0%")
    own.signal(signal.SIGTERM)
    assert await own.ends(15) == 0
    own.nothing_left()


async def test_an_engine_that_ignores_sigterm_is_killed(launch: Any) -> None:
    own = launch(
        knobs={"speculative": {"deaf": True}, "baseline": {}},
        config={"launch": {"start": {"stop": "500ms"}}},
    )
    own.start("--no-serve")
    await own.says("all engines are up")
    own.signal(signal.SIGTERM)
    assert await own.ends(15) == 0
    assert "speculative: stopped by SIGKILL" in own.said
    own.nothing_left()


async def test_a_second_signal_does_not_wait(launch: Any) -> None:
    own = launch(
        knobs={"speculative": {"deaf": True}, "baseline": {}},
        config={"launch": {"start": {"stop": "60s"}}},
    )
    own.start("--no-serve")
    await own.says("all engines are up")
    own.signal(signal.SIGTERM)
    await until(lambda: not own.engine_answers(B), 10, "the first signal has arrived")
    own.signal(signal.SIGTERM)
    assert await own.ends(15) == 0
    own.nothing_left()


async def test_the_end_of_its_terminal_leaves_nothing(launch: Any) -> None:
    own = launch()
    master, slave = pty.openpty()
    try:
        own.start(terminal=slave)
        os.close(slave)
        os.set_blocking(master, False)
        await until(lambda: _drained(master) or own.router_status() == 200, 45, "a ready router", every=0.05)
    finally:
        os.close(master)
    assert await own.ends(15) == 0
    own.nothing_left()


def _drained(master: int) -> bool:
    """Read what there is, so that the program never waits for its terminal."""
    try:
        while os.read(master, 65536):
            pass
    except (BlockingIOError, OSError):
        pass
    return False


async def test_its_own_crash_leaves_nothing(launch: Any) -> None:
    own = launch()
    own.start("--no-serve", module="tests.support.crashing_launch")
    assert await own.ends(45) == 1
    assert "RuntimeError: a bug" in own.said
    own.nothing_left()


@pytest.mark.timeout(300)
async def test_after_sigkill_the_next_start_names_and_ends_what_is_left(launch: Any) -> None:
    own, other = launch(), launch(knobs={})
    own.start("--no-serve")
    await own.says("all engines are up")
    other.start("--no-serve", "--engine", "baseline")
    await other.says("all engines are up")
    left = [pid for pid in own.marked() if pid != own.pid]
    own.signal(signal.SIGKILL)
    await own.ends()
    assert len(left) >= 8
    assert own.engine_answers(S)
    own.start("--no-serve")
    await until(lambda: own.said.count("all engines are up") == 2, 45, "a second start")
    assert "an earlier launcher was killed and left processes" in own.said
    for pid in left:
        assert f"pid {pid} (" in own.said
        assert start_of(pid) is None
    assert f"holds port {own.ports['s']}" in own.said
    assert "GiB of GPU memory" in own.said
    assert other.code is None
    assert other.engine_answers(B)
    for each in (own, other):
        each.signal(signal.SIGTERM)
        assert await each.ends(15) == 0
        each.nothing_left()


async def test_two_launchers_do_not_share_a_folder(launch: Any) -> None:
    own = launch(knobs={})
    own.start("--no-serve", "--engine", "speculative")
    await own.says("all engines are up")
    first = own.process
    own.start("--no-serve", "--engine", "speculative")
    assert await own.ends() == 2
    assert f"in use by another launcher (pid {first.pid})" in own.said
    own.process = first
    assert own.engine_answers(S)
    own.signal(signal.SIGTERM)
    assert await own.ends() == 0


async def test_one_that_dies_is_restarted_while_the_other_serves(launch: Any) -> None:
    own = launch()
    own.start()
    await own.serves()
    workers = set(own.marked())
    own.kill_engine(S, code=7, says="a last word")
    waited = await own.says("exit code 7", within=2)
    assert waited < 2
    assert "a last word" in own.said
    assert own.router_status("/readyz") == 200
    assert own.engine_answers(B)
    await own.says("restart in")
    await until(lambda: own.said.count("speculative: up:") == 2, 45, "the restart")
    first, again = own.starts(S)
    # At an empty GPU's fraction it would have taken a third of what is left beside the other.
    assert again["fraction"] > first["fraction"] * 1.5
    assert again["cap"] == pytest.approx(first["cap"], rel=0.05)
    assert len(own.starts(B)) == 1
    # Its orphans have not survived it, and none of them is a zombie.
    alive = [pid for pid in workers if start_of(pid)]
    assert len(alive) == 1 + 4
    await until(lambda: not _zombies(own.pid), 15, "no zombies", every=0.2)
    own.signal(signal.SIGTERM)
    assert await own.ends(15) == 0
    own.nothing_left()


def _zombies(parent: int) -> list[int]:
    return [each.pid for each in processes().values() if each.parent == parent and each.zombie]


async def test_when_no_engine_can_be_restarted_everything_ends_with_an_error(launch: Any) -> None:
    restart = {"attempts": 1, "delay": "100ms"}
    own = launch(config={"launch": {"start": {"restart": restart}}})
    own.start()
    await own.serves()
    last_words = {"exit_after": 0.0, "exit_code": 5, "last_words": "No module named 'sglang'"}
    own.set_knobs({"speculative": last_words, "baseline": last_words})
    own.kill_engine(S)
    await own.says("speculative: given up after 1 restarts")
    assert own.router_status() == 200
    own.kill_engine(B)
    assert await own.ends(45) == 1
    assert "has no sglang" in own.said
    assert "everything is stopped" in own.said
    own.nothing_left()
