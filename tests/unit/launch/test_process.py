"""An engine's processes: all of them are known, also those that hide."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from router.launch.ports import Wanted, can_bind, port_problems
from router.launch.process import MARKER, EngineProcess, rotate, send
from router.launch.procfs import boot_id, listeners, process_of, title, variable

FAMILY = """
import os, time
def tell(what): print(what, os.getpid(), flush=True)
tell("main")
if os.fork() == 0:
    tell("child")
    time.sleep(100)
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    tell("orphan")
    time.sleep(100)
time.sleep(100)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Starts engine processes of Python code."""
    made: list[EngineProcess] = []

    def run(code: str) -> EngineProcess:
        argv = (sys.executable, "-c", code)
        made.append(EngineProcess(argv, dict(os.environ), tmp_path / "x.log", f"{tmp_path}#speculative"))
        return made[-1]

    yield run
    for process in made:
        send(process.members(thorough=True), signal.SIGKILL)
        wait(lambda process=process: process.poll() is not None)  # type: ignore[misc]
        process.close()


def wait(condition: Callable[[], object], within: float = 20.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


def told(process: EngineProcess) -> dict[str, int]:
    """Pids by name, as the family tells them."""
    lines: list[str] = []

    def complete() -> bool:
        lines.extend(process.new_log().splitlines())
        return len(lines) == 3

    wait(complete)
    return {name: int(pid) for name, pid in (line.split() for line in lines)}


def test_all_members_are_found_after_the_main_process_has_died(start: Any) -> None:
    process = start(FAMILY)
    family = told(process)
    assert family["main"] == process.pid
    assert {member.pid for member in process.members(thorough=True)} == set(family.values())
    os.kill(process.pid, signal.SIGKILL)
    wait(lambda: process.poll() is not None)
    assert {member.pid for member in process.members()} == {family["child"], family["orphan"]}
    send(process.members(), signal.SIGKILL)
    wait(lambda: not process.members(thorough=True))


def test_asking_to_end_signals_the_main_process_only(start: Any) -> None:
    process = start(FAMILY)
    family = told(process)
    process.ask_to_end()
    wait(lambda: process.poll() is not None)
    assert process.poll() == -signal.SIGTERM
    assert process_of(family["child"]) is not None


def test_it_has_a_session_a_marker_and_its_own_log(start: Any, tmp_path: Path) -> None:
    process = start("import os, sys; print('out'); print('err', file=sys.stderr); os.kill(os.getpid(), 19)")
    found = process_of(process.pid)
    assert found is not None
    assert found.session == process.pid != os.getsid(0)
    wait(lambda: "err" in (tmp_path / "x.log").read_text())
    assert variable(process.pid, MARKER) == f"{tmp_path}#speculative"
    assert variable(process.pid, "SPT_NOENV") == "1"
    assert "import os, sys" in title(process.pid)


def test_a_signal_does_not_reach_a_pid_that_was_given_away(start: Any) -> None:
    process = start("import time; time.sleep(100)")
    found = process_of(process.pid)
    assert found is not None
    send([replace(found, start=found.start - 1)], signal.SIGKILL)
    time.sleep(0.1)
    assert process.poll() is None


def test_logs_of_earlier_runs_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    for number in range(8):
        rotate(log)
        log.write_text(str(number))
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert kept == {"x.log": "7", "x.log.1": "6", "x.log.2": "5", "x.log.3": "4", "x.log.4": "3"}


def test_what_vanished_is_nothing() -> None:
    assert process_of(2**22 + 1) is None
    assert title(2**22 + 1) == ""
    assert variable(2**22 + 1, MARKER) is None
    assert boot_id()


def test_ports() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        assert listeners(port) == [os.getpid()]
        (problem,) = port_problems([Wanted("http", "127.0.0.1", port), Wanted("any", "127.0.0.1", 0)])
        assert problem.startswith(
            f"http: port {port} cannot be used: address already in use by pid {os.getpid()} ("
        )
        assert len(port_problems([Wanted("nccl", None, port)])) == 1
    assert can_bind("127.0.0.1", port)
    assert listeners(port) == []
    (problem,) = port_problems([Wanted("http", "192.0.2.1", port)])
    assert "cannot assign requested address" in problem
