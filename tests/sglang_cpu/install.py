"""Installs the pinned SGLang for CPUs and makes the test models: `python tests/sglang_cpu/install.py`.

Standard library only. Prints the folder; does nothing if it is there. Exit code 3 where it cannot run, 0 with
`SPEC_ROUTER_SGLANG_OPTIONAL=1`, in which case the tests that need the engine skip.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
_MADE_FROM = ("requirements.txt", "make_models.py")
_CANNOT = 3


def home() -> Path:
    """Where the engine is or would be: `SPEC_ROUTER_SGLANG_HOME`, or a cache folder named for its pins."""
    if chosen := os.environ.get("SPEC_ROUTER_SGLANG_HOME"):
        return Path(chosen)
    digest = hashlib.sha256()
    for name in _MADE_FROM:
        digest.update((HERE / name).read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "spec-router" / f"sglang-{digest.hexdigest()[:16]}"


def interpreter(folder: Path) -> Path:
    """The engine's Python in that home."""
    return folder / "venv" / "bin" / "python"


def installed() -> bool:
    """Whether the engine is there, whole."""
    return (home() / "models" / "eagle3" / "model.safetensors").is_file()


def obstacle() -> str | None:
    """Why it cannot be installed here, in a sentence, or None."""
    machine = platform.machine()
    if sys.platform != "linux" or machine != "x86_64":
        return f"the pins are for Linux on x86_64, this is {sys.platform} on {machine}"
    if _python() is None:
        return "the pins are for CPython 3.11, and there is no `python3.11` on the path"
    return None


def _python() -> str | None:
    if sys.version_info[:2] == (3, 11) and sys.implementation.name == "cpython":
        return sys.executable
    return shutil.which("python3.11")


def install(folder: Path) -> None:
    """Build beside `folder` and rename: it is there whole or not at all. Raises CalledProcessError."""
    python = _python()
    assert python is not None, obstacle()
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        _run(python, "-m", "venv", str(building / "venv"))
        own = str(interpreter(building))
        requirements = str(HERE / "requirements.txt")
        quiet = ("-qq", "--disable-pip-version-check", "--no-input")
        _run(own, "-m", "pip", "install", *quiet, "--no-deps", "--requirement", requirements)
        _run(own, str(HERE / "make_models.py"), str(building / "models"))
        _settle(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _settle(building: Path, folder: Path) -> None:
    try:
        building.rename(folder)
    except OSError:
        if not installed():  # somebody else was faster only if theirs is whole
            raise


def _run(*command: str) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONNOUSERSITE": "1"}
    environment.pop("PYTHONPATH", None)
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=environment)


def main() -> int:
    """See the module."""
    folder = home()
    if installed():
        print(folder)
        return 0
    if (reason := obstacle()) is not None:
        print(f"SGLang cannot run here: {reason}.", file=sys.stderr)
        if os.environ.get("SPEC_ROUTER_SGLANG_OPTIONAL") == "1":
            print("SPEC_ROUTER_SGLANG_OPTIONAL=1: the tests that need it will skip.", file=sys.stderr)
            return 0
        print("SPEC_ROUTER_SGLANG_OPTIONAL=1 skips the tests that need it.", file=sys.stderr)
        return _CANNOT
    print(f"installing SGLang for CPUs into {folder} (about 3 GB, a few minutes)", file=sys.stderr)
    try:
        install(folder)
    except subprocess.CalledProcessError as error:
        print(f"this failed with exit code {error.returncode}: {' '.join(error.cmd)}", file=sys.stderr)
        print("torch==2.13.0+cpu is not on PyPI: see README.md beside this file.", file=sys.stderr)
        return 1
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
