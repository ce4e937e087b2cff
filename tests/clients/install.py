"""Installs the clients of `make test-clients`: `python tests/clients/install.py` prints the folder.

Standard library only. Does nothing if they are there. Without npm the Node clients are left out, and
their tests skip.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
_MADE_FROM = ("requirements.txt", "requirements-load.txt", "node/package-lock.json")
_QUIET = ("-qq", "--disable-pip-version-check", "--no-input")


def home() -> Path:
    """Where the clients are or would be: a cache folder named for their pins and this Python."""
    digest = hashlib.sha256(sys.version.encode())
    for name in _MADE_FROM:
        digest.update((HERE / name).read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "spec-router" / f"clients-{digest.hexdigest()[:16]}"


def interpreter() -> Path:
    """The clients' Python."""
    return home() / "venv" / "bin" / "python"


def node_folder() -> Path:
    """The folder that holds the clients' node_modules; it may be absent."""
    return home() / "node"


def installed() -> bool:
    """Whether the clients are there."""
    return interpreter().is_file()


def install(folder: Path) -> None:
    """Build beside `folder` and rename: it is there whole or not at all. Raises CalledProcessError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        _run(sys.executable, "-m", "venv", str(building / "venv"))
        pip = (str(building / "venv" / "bin" / "python"), "-m", "pip", "install", *_QUIET)
        _run(*pip, "--requirement", str(HERE / "requirements.txt"))
        _run(*pip, "--no-deps", "--requirement", str(HERE / "requirements-load.txt"))
        if (npm := shutil.which("npm")) is not None:
            for name in ("package.json", "package-lock.json"):
                (building / "node").mkdir(exist_ok=True)
                shutil.copy(HERE / "node" / name, building / "node")
            options = ("--ignore-scripts", "--no-audit", "--no-fund", "--silent")
            _run(npm, "ci", *options, "--prefix", str(building / "node"))
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
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=environment)


def main() -> int:
    """See the module."""
    if not installed():
        print(f"installing the clients into {home()} (about 500 MB)", file=sys.stderr)
        try:
            install(home())
        except subprocess.CalledProcessError as error:
            print(f"this failed with exit code {error.returncode}: {' '.join(error.cmd)}", file=sys.stderr)
            return 1
    print(home())
    return 0


if __name__ == "__main__":
    sys.exit(main())
