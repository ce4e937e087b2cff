"""How many pieces a second one client process of `spec-router bench` takes.

`python -m bench.dataplane.client` prints it.

The engine costs next to nothing and has one core, the client has another. On a machine with other work run it
under `chrt -r 1`, or that is what it measures.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.dataplane.processes import engines, two_cores
from bench.dataplane.tools import ToolError, make_tools

STREAMS = 64
# Of an answer, and of a window.
SECONDS = 2.0
# Microseconds between two pieces of a stream.
GAPS = (15_000, 6_000, 3_000, 2_000, 1_500, 1_000, 700)


def main() -> int:
    """Print one line for each rate; 2: not measured."""
    try:
        cores, tools = two_cores(), make_tools(with_peer=False)
    except (ToolError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    print("offered/s | taken/s |  core | verdict")
    with engines(tools, cores) as ports:
        for gap in GAPS:
            pieces = int(SECONDS * 1e6 / gap)
            cell = _cell(ports[0], cores.proxy, f"bench chunks={pieces} every_us={gap} ")
            taken = STREAMS * pieces / cell["latency_p50"]
            verdict = "; ".join(cell["problems"]) or "fine"
            print(f"{STREAMS * 1e6 / gap:9,.0f} | {taken:7,.0f} | {cell['client_busy']:5.0%} | {verdict}")
    return 0


def _cell(port: int, core: int, prompt: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        prompts = Path(folder) / "prompts.txt"
        prompts.write_text(prompt)
        options = {
            "prompts": prompts,
            "concurrency": STREAMS,
            "seconds": SECONDS,
            "warm-up": 0.5,
            "processes": 1,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "router", "bench", f"http://127.0.0.1:{port}", *words, "--json"]
        done = subprocess.run(
            ["taskset", "-c", str(core), *command], capture_output=True, text=True, check=False
        )
    if not done.stdout:
        raise RuntimeError(done.stderr)
    cell: dict[str, Any] = json.loads(done.stdout)["cells"][0]
    return cell


if __name__ == "__main__":
    sys.exit(main())
