"""`spec-router verify`: greedy equivalence of both paths. How it is called: `verifying.py`."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path as FilePath

from rich.console import Console
from rich.progress import Progress

from router.cli.targets import BadInput, find_targets
from router.config import ConfigError
from router.prompt_file import PromptsError
from router.verify.ask import Refused, Target, Unreachable
from router.verify.compare import Row
from router.verify.prompts import BUILT_IN, read_prompts
from router.verify.report import as_json, as_table, doubts, verdict
from router.verify.run import Result, compare_engines

SAFE, UNSAFE, BAD_INPUT, UNREACHABLE = 0, 1, 2, 4


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """The command's options; `config` is read unless both URLs are given."""

    config: FilePath
    speculative: str | None
    baseline: str | None
    prompts: FilePath | None
    max_tokens: int
    gap: float
    timeout: float
    json: bool


def run_verify(options: VerifyOptions) -> int:
    """Compare, print, and return the exit status."""
    try:
        speculative, baseline = find_targets(options.config, options.speculative, options.baseline)
        prompts = read_prompts(options.prompts) if options.prompts else BUILT_IN
        result = asyncio.run(_with_progress(speculative, baseline, prompts, options))
    except (BadInput, ConfigError, PromptsError, Refused) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    except Unreachable as error:
        print(error, file=sys.stderr)
        return UNREACHABLE
    for doubt in doubts(result):
        print(f"note: {doubt}", file=sys.stderr)
    if options.json:
        print(json.dumps(as_json(result), indent=2, ensure_ascii=False))
    else:
        console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
        console.print(as_table(result))
        console.print(verdict(result), markup=False)
    return SAFE if result.safe else UNSAFE


async def _with_progress(
    speculative: Target, baseline: Target, prompts: tuple[str, ...], options: VerifyOptions
) -> Result:
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("comparing", total=len(prompts))

        def on_row(row: Row) -> None:
            progress.advance(task)

        return await compare_engines(
            speculative,
            baseline,
            prompts,
            max_tokens=options.max_tokens,
            timeout=options.timeout,
            gap=options.gap,
            on_row=on_row,
        )
