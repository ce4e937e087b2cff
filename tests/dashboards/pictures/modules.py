"""Grafana's panel library: installed once, outside the clone, and bundled with the page in seconds.

About 430 MB. The folder is `SPEC_ROUTER_PANELS_HOME`, or one in the cache named for the pinned versions.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PINS = HERE / "package.json"
# Install scripts of other people's packages need not run: esbuild's only checks its own binary.
NPM = ["npm", "install", "--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund", "--silent"]
BUNDLE = [
    "--bundle",
    "--format=iife",
    "--jsx=automatic",
    '--define:process.env.NODE_ENV="production"',
    "--define:global=globalThis",
    "--loader:.svg=text",
    "--loader:.ttf=dataurl",
    "--log-level=warning",
]
INDEX = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="main.css">
<style>
@font-face { font-family: Inter; src: local("Inter"), local("Liberation Sans"), local("DejaVu Sans"); }
body { margin: 8px; background: #111217; }
</style><div id="board"></div><script src="main.js"></script>
"""


def home() -> Path:
    """Where the library is or would be."""
    if chosen := os.environ.get("SPEC_ROUTER_PANELS_HOME"):
        return Path(chosen)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "spec-router" / f"panels-{hashlib.sha256(PINS.read_bytes()).hexdigest()[:16]}"


def install() -> Path:
    """The folder with the library, filled whole or not at all. Raises CalledProcessError."""
    folder = home()
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
        try:
            shutil.copy(PINS, building)
            subprocess.run(NPM, cwd=building, check=True)
            building.rename(folder)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return folder


def bundle(out: Path) -> Path:
    """Write the page into `out`; returns its file. Raises CalledProcessError."""
    modules = install() / "node_modules"
    esbuild = modules / "@esbuild" / "linux-x64" / "bin" / "esbuild"
    program = esbuild if esbuild.exists() else modules / ".bin" / "esbuild"
    command = [str(program), str(HERE / "page.jsx"), f"--outfile={out / 'main.js'}", *BUNDLE]
    subprocess.run(command, check=True, env={**os.environ, "NODE_PATH": str(modules)})
    index = out / "index.html"
    index.write_text(INDEX)
    return index
