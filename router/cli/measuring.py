"""Commands that measure: how they are called."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated

import typer

from router.core.words import Placement

measuring = typer.Typer()

# Concurrencies as in the field's published sweeps.
SWEEP = "1,2,4,8,16,30,32,64,70,128,250"
WRONG = 2


def _finite(value: float) -> float:
    """A bound of an option lets NaN pass."""
    if not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number of that range.")
    return value


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
Seconds = Annotated[float, typer.Option(min=0.1, callback=_finite, help="How long a cell is measured.")]
WarmUp = Annotated[
    float,
    typer.Option(
        min=0.0, callback=_finite, help="Seconds of undisturbed answers before that, at every load anew."
    ),
]
Processes = Annotated[
    int | None, typer.Option(min=1, max=256, help="Client processes; without it, half of the cores.")
]
Timeout = Annotated[float, typer.Option(min=0.1, callback=_finite, help="Seconds for one answer.")]
Seed = Annotated[int, typer.Option(help="Fixes what is asked, and when.")]
Route = Annotated[str, typer.Option(help="/v1/chat/completions or /v1/completions.")]
Model = Annotated[str | None, typer.Option(help="Its name; without it, the first that is listed.")]
Temperature = Annotated[float, typer.Option(min=0.0, max=2.0, callback=_finite, help="0 is greedy.")]


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
    temperature: Temperature = 0.0,
    route: Route = "/v1/chat/completions",
    model: Model = None,
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

    Exit status: 0; 1 a cell is bad, a client process died or a file could not
    be written; 2 the input is wrong; 4 no answer from the server; 130 stopped
    by Ctrl-C.
    """
    from router.bench.cell import Pace
    from router.bench.messages import Answers
    from router.cli.bench import BenchOptions, client_processes, numbers
    from router.cli.bench import bench as run_bench
    from router.cli.targets import BadInput

    try:
        if concurrency is None and rate is None:
            concurrency = SWEEP
        rates = () if rate is None else numbers(rate, "--rate", float)
        levels = () if concurrency is None else numbers(concurrency, "--concurrency", int)
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


@measuring.command(
    epilog="Examples: spec-router calibrate -c config.yaml; "
    "spec-router calibrate --speculative http://127.0.0.1:30001 --baseline http://127.0.0.1:30002 "
    "--prompts mine.jsonl --out calibration; spec-router calibrate --from calibration/measured.json"
)
def calibrate(
    config: Annotated[Path, typer.Option("--config", "-c", help="Names the engines and their keys.")] = Path(
        "config.yaml"
    ),
    speculative: Annotated[
        str | None, typer.Option(help="URL of the speculative engine, instead of the configuration's.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="URL of the baseline engine, likewise.")] = None,
    placement: Annotated[
        Placement, typer.Option(help="shared: on the same GPUs; separate: each on its own.")
    ] = Placement.SHARED,
    concurrency: Annotated[str, typer.Option(help="Requests held in flight.")] = "1,2,4,8,16,32,64,128",
    repeats: Annotated[int, typer.Option(min=1, max=1000, help="Visits to every load.")] = 2,
    seconds: Seconds = 8.0,
    warm_up: WarmUp = 2.0,
    prompts: Prompts = "built-in",
    group: Group = None,
    prefix_tokens: PrefixTokens = 512,
    question_tokens: QuestionTokens = 64,
    max_tokens: MaxTokens = 192,
    fixed_length: FixedLength = False,
    temperature: Temperature = 0.0,
    route: Route = "/v1/chat/completions",
    model: Model = None,
    processes: Processes = None,
    timeout: Timeout = 300.0,
    seed: Seed = 0,
    router: Annotated[
        bool, typer.Option("--router/--no-router", help="Measure a router between the engines as well.")
    ] = True,
    out: Annotated[Path, typer.Option(help="Folder for what is written.")] = Path("calibration"),
    measured: Annotated[
        Path | None, typer.Option("--from", help="Measure nothing, judge what was measured before.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure both engines, find where speculation stops to pay, and write the policy for it.

    Each engine alone by load and by kind of prompt, then both at once, then a
    router between them. Nothing else must use the engines meanwhile. Written
    are calibration.yaml, policy.yaml (the section for config.yaml), report.html
    and measured.json. With URLs the key comes from SPEC_ROUTER_ENGINE_API_KEY.
    Ctrl-C keeps what was measured.

    Exit status: 0; 1 the measurement gives no thresholds, and the report says
    why; 2 the input is wrong; 4 an engine gives no answer; 130 stopped by
    Ctrl-C.
    """
    from router.bench.cell import Pace
    from router.bench.messages import Answers
    from router.calibrate.measure import Settings
    from router.cli.bench import client_processes, numbers
    from router.cli.calibrate import CalibrateOptions
    from router.cli.calibrate import calibrate as run_calibrate
    from router.cli.targets import BadInput

    try:
        levels = sorted({int(level) for level in numbers(concurrency, "--concurrency", int)})
        if placement is Placement.SINGLE:
            raise BadInput("--placement single has nothing to calibrate; allowed: shared, separate")
    except BadInput as error:
        print(error, file=sys.stderr)
        raise typer.Exit(WRONG) from None
    answers = Answers(max_tokens, fixed_length, temperature, timeout)
    options = CalibrateOptions(
        config=config,
        speculative=speculative,
        baseline=baseline,
        placement=placement,
        concurrencies=tuple(levels),
        repeats=repeats,
        prompts=prompts,
        groups=tuple(group or ()),
        prefix_tokens=prefix_tokens,
        question_tokens=question_tokens,
        settings=Settings(Pace(seconds, warm_up), answers, processes or client_processes(), seed),
        route=route,
        model=model,
        router=router,
        out=out,
        measured=measured,
        as_json=json,
        command=f"spec-router {' '.join(sys.argv[1:])}",
    )
    raise typer.Exit(run_calibrate(options))
