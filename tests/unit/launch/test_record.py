"""What an earlier launcher left is known by pid and start time or by the marker, never by what it holds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from router.launch.files import LaunchFileError
from router.launch.process import MARKER
from router.launch.procfs import process_of
from router.launch.record import NOTE, Entry, Folder, describe, end_leftovers

SLEEP = "import time; time.sleep(100)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); {SLEEP}"


@pytest.fixture
def spawn() -> Iterator[Any]:
    """Starts processes, and ends them."""
    made: list[subprocess.Popen[str]] = []

    def start(code: str = SLEEP, **variables: str) -> subprocess.Popen[str]:
        env = {**os.environ, **variables}
        made.append(
            subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)
        )
        return made[-1]

    yield start
    for process in made:
        process.kill()
        process.communicate()


def key(pid: int) -> tuple[int, int]:
    found = process_of(pid)
    assert found is not None
    return found.key


def note(folder: Folder, *members: tuple[int, int]) -> None:
    folder.write([Entry("speculative", members[0][0], (30001, 29501), members)])


def test_noted_processes_are_ours_and_others_are_not(tmp_path: Path, spawn: Any) -> None:
    ours, _ = spawn(), spawn()
    folder = Folder(tmp_path)
    note(folder, key(ours.pid))
    assert [process.pid for process in folder.leftovers()] == [ours.pid]


def test_a_pid_that_was_given_away_is_not_ours(tmp_path: Path, spawn: Any) -> None:
    other = spawn()
    folder = Folder(tmp_path)
    pid, start = key(other.pid)
    note(folder, (pid, start - 1))
    assert folder.leftovers() == []


def test_a_note_of_another_boot_is_of_no_use(tmp_path: Path, spawn: Any) -> None:
    other = spawn()
    folder = Folder(tmp_path)
    note(folder, key(other.pid))
    text = json.loads((tmp_path / NOTE).read_text())
    (tmp_path / NOTE).write_text(json.dumps({**text, "boot": "another"}))
    assert folder.leftovers() == []


def test_the_marker_of_this_folder_is_ours_even_without_a_note(tmp_path: Path, spawn: Any) -> None:
    folder = Folder(tmp_path / "a")
    ours = spawn(**{MARKER: folder.marker("baseline")})
    spawn(**{MARKER: Folder(tmp_path / "ab").marker("baseline")})
    deadline = time.monotonic() + 10
    while not (found := folder.leftovers()) and time.monotonic() < deadline:
        time.sleep(0.02)  # between fork and exec it has this test's environment
    assert [process.pid for process in found] == [ours.pid]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"boot": 1}', '{"boot": "x", "engines": [{"members": [1]}]}']
)
def test_a_broken_note_is_of_no_use(tmp_path: Path, text: str) -> None:
    (tmp_path / NOTE).write_text(text)
    assert Folder(tmp_path).leftovers() == []


def test_leftovers_get_sigterm_and_then_sigkill(tmp_path: Path, spawn: Any) -> None:
    gentle, deaf = spawn(), spawn(DEAF)
    assert deaf.stdout.readline() == "deaf\n"
    folder = Folder(tmp_path)
    note(folder, key(gentle.pid), key(deaf.pid))
    assert end_leftovers(folder.leftovers, grace=0.5) == []
    assert gentle.wait() == -signal.SIGTERM
    assert deaf.wait() == -signal.SIGKILL


def test_a_folder_is_held_by_one(tmp_path: Path) -> None:
    first, second = Folder(tmp_path), Folder(tmp_path)
    first.hold()
    with pytest.raises(LaunchFileError, match=f"in use by another launcher .pid {os.getpid()}"):
        second.hold()
    first.let_go()
    second.hold()
    second.let_go()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchFileError, match="cannot be used"):
        Folder(tmp_path / "file" / "x").hold()


def test_a_clean_end_leaves_no_note(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.hold()
    note(folder, (1, 1))
    folder.let_go()
    assert not (tmp_path / NOTE).exists()


def test_a_description_says_what_is_held() -> None:
    me = process_of(os.getpid())
    assert me is not None
    assert describe(me, [30001], 3 << 30).endswith("holds port 30001, 3.0 GiB of GPU memory")
    assert describe(me, [], 0).startswith(f"pid {me.pid} (")
    assert "holds" not in describe(me, [], 0)
