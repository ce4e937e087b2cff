"""What a fake engine is told: SGLang's flags, and the knobs of a test."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass, fields
from pathlib import Path

VARIABLE = "FAKE_ENGINE"


@dataclass(frozen=True, slots=True)
class Knobs:
    """Bytes are per GPU, times are seconds.

    Attributes:
        cell, draft_cell: bytes of a token by which the pool is divided, and of the draft's own pool.
        late: what the burn-in takes.
        exit_after, exit_code, last_words: end by itself while loading.
        never_listen: live, but never listen.
        heartbeat: with it, write a line every so often that says nothing new.
        unready_for: 200 on health, but 503 for requests, for so long after it listens.
        load_steps, load_step: how many shards, and the time of each.
        no_ready: no route /ready, as 0.5.16.
        workers: start one that ignores SIGTERM, one that is an orphan in a session of its own, and one that
            lost its environment too; the second holds the memory.
        deaf: ignore SIGTERM.
        bare: take no GPU memory.
    """

    context: int = 0
    weights: int = 0
    draft: int = 0
    early: int = 0
    late: int = 0
    cell: int = 1
    draft_cell: int = 0
    exit_after: float | None = None
    exit_code: int = 1
    last_words: str = ""
    never_listen: bool = False
    heartbeat: float = 0.0
    unready_for: float = 0.0
    load_steps: int = 2
    load_step: float = 0.0
    no_ready: bool = False
    workers: bool = False
    deaf: bool = False
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Arguments:
    """The flags that matter here."""

    path: str
    host: str
    port: int
    tp: int
    base_gpu: int
    fraction: float
    cap: int | None
    chunk: int
    running: int
    speculates: bool


def parse(argv: list[str]) -> Arguments:
    """SGLang's flags; others are ignored."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--tp-size", type=int, default=1)
    parser.add_argument("--base-gpu-id", type=int, default=0)
    parser.add_argument("--mem-fraction-static", type=float, required=True)
    parser.add_argument("--max-total-tokens", type=int)
    parser.add_argument("--chunked-prefill-size", type=int, default=8192)
    parser.add_argument("--max-running-requests", type=int, default=48)
    parser.add_argument("--speculative-algorithm")
    parser.add_argument("--extra-metric-labels", type=json.loads)
    known, _ = parser.parse_known_args(argv)
    return Arguments(
        known.extra_metric_labels["path"],
        known.host,
        known.port,
        known.tp_size,
        known.base_gpu_id,
        known.mem_fraction_static,
        known.max_total_tokens,
        known.chunked_prefill_size,
        known.max_running_requests,
        known.speculative_algorithm is not None,
    )


def settings(path: str) -> Knobs:
    """This start's; they may have changed since the last."""
    given = json.loads(Path(os.environ[VARIABLE]).read_text()).get(path, {})
    names = {field.name for field in fields(Knobs)}
    return Knobs(**{name: value for name, value in given.items() if name in names})
