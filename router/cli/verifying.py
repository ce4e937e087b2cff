"""`spec-router verify`: how it is called."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated

import typer

from router.verify.compare import NEAR_TIE

verifying = typer.Typer()


@verifying.command(
    epilog="Examples: spec-router verify -c config.yaml; "
    "spec-router verify --speculative http://127.0.0.1:30001 --baseline http://127.0.0.1:30002 --json"
)
def verify(
    config: Annotated[
        FilePath, typer.Option("--config", "-c", help="Names the engines and their keys.")
    ] = FilePath("config.yaml"),
    speculative: Annotated[
        str | None, typer.Option(help="URL of the speculative engine, instead of the configuration's.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="URL of the baseline engine, likewise.")] = None,
    prompts: Annotated[
        FilePath | None,
        typer.Option(help='One prompt a line; .jsonl: a JSON string or {"prompt": …} a line.'),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, max=100_000, help="Longest answer.")] = 128,
    gap: Annotated[
        float, typer.Option(min=0.0, help="Nats within which two candidates count as a near-tie.")
    ] = NEAR_TIE,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one answer.")] = 120.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask both engines the same at temperature 0 and show where the answers part.

    The engines are asked directly, past the router, one prompt after the
    other; keep other load away from them meanwhile. With URLs on the command
    line the key comes from SPEC_ROUTER_ENGINE_API_KEY.

    Exit status: 0 a switch is safe (all answers are identical, or part only
    at near-ties); 1 it is not; 2 the input is wrong; 4 an engine gives no
    answer.
    """
    from router.cli.verify import VerifyOptions, run_verify

    options = VerifyOptions(config, speculative, baseline, prompts, max_tokens, gap, timeout, json)
    raise typer.Exit(run_verify(options))
