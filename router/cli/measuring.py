"""Commands that measure: how they are called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

measuring = typer.Typer()

# Concurrencies as in the field's published sweeps.
SWEEP = "1,2,4,8,16,30,32,64,70,128,250"
WRONG = 2

Prompts = Annotated[
    str,
    typer.Option(
        help="built-in, shared-prefix, or a file: one prompt a line; .jsonl: a JSON string, "
        '{"prompt": …} or {"messages": […]} a line, with an optional "group".'
    ),
]
Group = Annotated[
    list[str] | None, typer.Option(help="Only these prompts; may be repeated. Built in: open, copy.")
]
PrefixTokens = Annotated[int, typer.Option(min=1, max=1_000_000, help="Of shared-prefix: tokens in common.")]
QuestionTokens = Annotated[int, typer.Option(min=1, max=1_000_000, help="Of shared-prefix: tokens of each.")]
MaxTokens = Annotated[int, typer.Option(min=1, max=1_000_000, help="Longest answer.")]
FixedLength = Annotated[
    bool, typer.Option("--fixed-length", help="Answers of exactly that length, instead of a natural stop.")
]
Seconds = Annotated[float, typer.Option(min=0.1, help="How long a cell is measured.")]
WarmUp = Annotated[
    float, typer.Option(min=0.0, help="Seconds of undisturbed answers before that, at every load anew.")
]
Processes = Annotated[
    int | None, typer.Option(min=1, max=256, help="Client processes; without it, half of the cores.")
]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds for one answer.")]
Seed = Annotated[int, typer.Option(help="Fixes what is asked, and when.")]


@measuring.command(
    epilog="Examples: spec-router bench http://127.0.0.1:8000; "
    "spec-router bench http://127.0.0.1:30001 --concurrency 1,8,64 --fixed-length --csv cells.csv "
    "--plot sweep.svg; spec-router bench http://127.0.0.1:8000 --rate 0.5,1,2"
)
def bench(
    url: Annotated[str, typer.Argument(help="A router or an engine: http://HOST:PORT, with or without /v1.")],
    concurrency: Annotated[
        str | None, typer.Option(help=f"Requests held in flight (closed loop).  [default: {SWEEP}]")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Requests per second that come without waiting (open loop).")
    ] = None,
    seconds: Seconds = 10.0,
    warm_up: WarmUp = 2.0,
    repeats: Annotated[int, typer.Option(min=1, max=1000, help="Visits to every cell.")] = 1,
    prompts: Prompts = "built-in",
    group: Group = None,
    by_group: Annotated[bool, typer.Option("--by-group", help="Measure every group apart.")] = False,
    prefix_tokens: PrefixTokens = 512,
    question_tokens: QuestionTokens = 64,
    max_tokens: MaxTokens = 192,
    fixed_length: FixedLength = False,
    temperature: Annotated[float, typer.Option(min=0.0, max=2.0, help="0 is greedy.")] = 0.0,
    route: Annotated[
        str, typer.Option(help="/v1/chat/completions or /v1/completions.")
    ] = "/v1/chat/completions",
    model: Annotated[str | None, typer.Option(help="Its name; without it, the first that is listed.")] = None,
    processes: Processes = None,
    timeout: Timeout = 300.0,
    seed: Seed = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    csv: Annotated[Path | None, typer.Option(help="Write the cells as CSV.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw a picture: .svg, .png or .pdf.")] = None,
) -> None:
    """Measure what an endpoint gives at which load: throughput, latency, success.

    All requests are streamed, and tokens are those of the answers' usage. A
    request that fails, in whatever way, counts as failed: a cell in which more
    than 1 % did shows no percentiles and is marked bad. The key comes from
    SPEC_ROUTER_ENGINE_API_KEY. Ctrl-C prints and writes what was measured.

    Exit status: 0; 1 a cell is bad; 2 the input is wrong; 4 no answer from the
    server; 130 stopped by Ctrl-C.
    """
    from router.bench.cell import Pace
    from router.bench.messages import Answers
    from router.cli.bench import BadInput, BenchOptions, client_processes, numbers
    from router.cli.bench import bench as run_bench

    try:
        rates = numbers(rate, "--rate", float) if rate else ()
        levels = numbers(concurrency or SWEEP, "--concurrency", int) if concurrency or not rate else ()
    except BadInput as error:
        print(error, file=sys.stderr)
        raise typer.Exit(WRONG) from None
    options = BenchOptions(
        url=url,
        concurrencies=tuple(int(level) for level in levels),
        rates=tuple(rates),
        pace=Pace(seconds, warm_up),
        repeats=repeats,
        prompts=prompts,
        groups=tuple(group or ()),
        by_group=by_group,
        prefix_tokens=prefix_tokens,
        question_tokens=question_tokens,
        answers=Answers(max_tokens, fixed_length, temperature, timeout),
        route=route,
        model=model,
        processes=processes or client_processes(),
        seed=seed,
        as_json=json,
        csv=csv,
        plot=plot,
    )
    raise typer.Exit(run_bench(options))
