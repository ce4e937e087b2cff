"""What the measurement needs beside the router, made once and kept in a cache: two C programs, the peer."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = ("wire.h", "engine.c", "load.c")


class ToolError(Exception):
    """Something that cannot be made here; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Executables: the engine, the load client, and the Python that has the peer (None: not wanted)."""

    engine: Path
    load: Path
    peer_python: Path | None


def make_tools(*, with_peer: bool) -> Tools:
    """Compile and install what is not in the cache yet.

    Raises:
        ToolError: no C compiler, it fails, or the peer cannot be installed.
    """
    programs = _cache("bin", [HERE / name for name in SOURCES])
    engine, load = programs / "engine", programs / "load"
    for program in (engine, load):
        if not program.exists():
            _compile(HERE / f"{program.name}.c", program)
    return Tools(engine, load, _install_peer() if with_peer else None)


def _cache(kind: str, inputs: list[Path]) -> Path:
    """A folder outside the clone that is named by what its content is made from."""
    digest = hashlib.sha256(sys.version.encode())
    for path in inputs:
        digest.update(path.read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "spec-router" / f"bench-{kind}-{digest.hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _compile(source: Path, target: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise ToolError("The load client and the engine are C programs: install a C compiler (cc).")
    made = target.with_suffix(".new")
    done = subprocess.run(
        [compiler, "-O2", "-o", str(made), str(source)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ToolError(f"{source.name} does not compile:\n{done.stderr}")
    made.rename(target)


def _install_peer() -> Path:
    requirements = HERE / "requirements.txt"
    folder = _cache("peer", [requirements])
    python, mark = folder / "bin" / "python", folder / "installed"
    if not mark.exists():
        print(f"installing the peer into {folder}", file=sys.stderr)
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", "-r", str(requirements)],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ToolError(f"the peer cannot be installed: {done.stderr.strip()[-500:]}")
        mark.touch()
    return python
