"""The same server measured by SGLang's load generator and by `spec-router bench`, by turns.

`python -m tests.clients.agreement` prints both against a real SGLang on CPUs (`make bench-agreement`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as File
from statistics import median
from typing import Any

from tests.clients import install
from tests.clients.stage import python, run
from tests.sglang_cpu import install as sglang
from tests.sglang_cpu.flags import RUNNING, Start
from tests.sglang_cpu.process import engines

REPEATS = 3
PROMPT_TOKENS = 32


@dataclass(frozen=True, slots=True)
class Said:
    """What a tool says of a load: tokens per second, and medians in milliseconds."""

    throughput: float
    ttft: float
    tpot: float


@dataclass(frozen=True, slots=True)
class Job:
    """What both are told to do.

    Attributes:
        url, model: of the server.
        levels: requests in flight.
        tokens: of every answer.
        rounds: answers that SGLang's generator asks of each slot.
        seconds: of our window; about as long as its rounds take.
    """

    url: str
    model: str
    levels: tuple[int, ...]
    tokens: int
    rounds: int
    seconds: float


def compare(job: Job, folder: File) -> dict[int, tuple[Said, Said]]:
    """Theirs and ours by concurrency: medians of three runs that follow each other."""
    # The generator's tokenizer learns from any text that is there.
    (folder / "words.txt").write_text(File(__file__).read_text())
    theirs: dict[int, list[Said]] = {level: [] for level in job.levels}
    ours: dict[int, list[Said]] = {level: [] for level in job.levels}
    for _ in range(REPEATS):
        for level in job.levels:
            theirs[level].append(_theirs(job, level, folder))
        for level, said in zip(job.levels, _ours(job), strict=True):
            ours[level].append(said)
    return {level: (_median(theirs[level]), _median(ours[level])) for level in job.levels}


def _theirs(job: Job, level: int, folder: File) -> Said:
    result = folder / "result.jsonl"
    options: dict[str, object] = {
        "backend": "sglang-oai-chat",
        "base-url": job.url,
        "model": job.model,
        "tokenizer": folder,
        "dataset-name": "random-ids",
        "num-prompts": level * job.rounds,
        "random-input-len": PROMPT_TOKENS,
        "random-output-len": job.tokens,
        "random-range-ratio": 1,
        "max-concurrency": level,
        "worker-threads": 1,
        "output-file": result,
    }
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    run(python("load", str(folder), *arguments, "--disable-tqdm"))
    found: dict[str, Any] = json.loads(result.read_text().splitlines()[-1])
    assert found["completed"] == level * job.rounds, found
    assert found["total_output_tokens"] == level * job.rounds * job.tokens, found
    return Said(found["output_throughput"], found["median_ttft_ms"], found["median_tpot_ms"])


def _ours(job: Job) -> list[Said]:
    options: dict[str, object] = {
        "concurrency": ",".join(map(str, job.levels)),
        "seconds": job.seconds,
        "warm-up": 1,
        "max-tokens": job.tokens,
        "group": "open",
        "processes": 1,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "router", "bench", job.url, *words, "--fixed-length", "--json"]
    # A client that was late on a busy machine says so; the comparison shows what it amounts to.
    cells = json.loads(run(command, codes=(0, 1)))["cells"]
    for cell in cells:
        assert not cell["failures"], cell
        print(*cell["problems"], sep="\n", end="", file=sys.stderr)
    return [
        Said(cell["tokens_per_second"], 1000 * cell["ttft_p50"], 1000 * cell["tpot_p50"]) for cell in cells
    ]


def _median(said: Sequence[Said]) -> Said:
    return Said(*(median(getattr(one, name) for one in said) for name in ("throughput", "ttft", "tpot")))


def table(found: dict[int, tuple[Said, Said]]) -> str:
    """One line a load: theirs, ours, and how much ours is above it."""
    lines = [f"{'in flight':>9} | {'tok/s':^24} | {'TTFT ms':^24} | {'TPOT ms':^24}"]
    for level, (theirs, ours) in found.items():
        parts = [
            f"{getattr(theirs, name):8.1f} {getattr(ours, name):8.1f} "
            f"{getattr(ours, name) / getattr(theirs, name) - 1:+6.1%}"
            for name in ("throughput", "ttft", "tpot")
        ]
        lines.append(" | ".join([f"{level:>9}", *(f"{part:>24}" for part in parts)]))
    return "\n".join(lines)


def main() -> int:
    """Against a real engine; see the module."""
    missing = [
        f"`{how}` installs what is missing"
        for there, how in ((install.installed(), "make clients"), (sglang.installed(), "make sglang"))
        if not there
    ]
    if missing:
        print("; ".join(missing), file=sys.stderr)
        return 2
    for name, start in (("baseline", Start()), ("EAGLE-3", Start(speculative=True))):
        with tempfile.TemporaryDirectory() as folder, engines(File(folder), engine=start) as started:
            job = Job(f"http://127.0.0.1:{started['engine'].port}", "tiny", (1, 2, RUNNING), 256, 3, 6.0)
            try:
                found = compare(job, File(folder))
            except subprocess.TimeoutExpired as error:
                print(error, file=sys.stderr)
                return 1
        print(f"{name}: SGLang's generator, spec-router bench, difference\n{table(found)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
