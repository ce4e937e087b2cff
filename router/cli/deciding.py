"""Commands about what should decide: replay and advise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from router.core.words import Placement

deciding = typer.Typer()


@deciding.command(
    epilog="Examples: spec-router replay wave:0.1-5/s:20m --seeds 5; "
    "spec-router replay trace.csv --profile calibration.yaml --rate 2 --plot replay.svg"
)
def replay(
    load: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="A CSV file of time, prompt tokens, output tokens; or steady:8, wave:1-60:20m, "
            "day:1-60:40m, ramp:1-60:10m (requests in flight), wave:0.1-5/s:20m (requests per second).",
        ),
    ],
    profile: Annotated[
        str, typer.Option(help="The engines: h200, strong, seed, a calibration or a profile (YAML).")
    ] = "strong",
    rate: Annotated[float, typer.Option(min=1e-6, help="Multiplies the arrival rate, or the users.")] = 1.0,
    users: Annotated[
        float | None, typer.Option(min=1, help="Closed loop: so many users send the trace's requests.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=1, help="How long requests arrive.")] = None,
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Repeats, for the intervals.")] = 3,
    placement: Annotated[Placement, typer.Option(help="shared or separate GPUs.")] = Placement.SHARED,
    accept_length: Annotated[
        float | None, typer.Option(min=1, help="Of this workload, where it is not the calibrated one.")
    ] = None,
    slo_ttft: Annotated[float, typer.Option(min=0, help="Promised seconds to the first token.")] = 2.0,
    slo_tpot: Annotated[float, typer.Option(min=0, help="Promised seconds per token after it.")] = 0.05,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Processes; without it, as many as there are cores where that saves time."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw a picture: .svg, .png or .pdf.")] = None,
) -> None:
    """Serve a load in virtual time in seven ways, by the router's own decisions, and compare them.

    Speculation only, the baseline only, the watermarks 8/3, watermarks from the calibration, the calibrated
    policy, one engine that adapts by itself (at a tax), and an oracle that switches at once and for nothing.

    Exit status: 0; 2 the input is wrong.
    """
    from router.cli.replay import ReplayOptions
    from router.cli.replay import replay as run_replay
    from router.replay.figures import Slo

    slo = Slo(slo_ttft, slo_tpot)
    options = ReplayOptions(
        load, profile, rate, users, seconds, seeds, placement, accept_length, slo, json, plot, jobs
    )
    raise typer.Exit(run_replay(options))


@deciding.command(
    epilog="Examples: spec-router advise calibration.yaml --traffic trace.csv; "
    "spec-router advise calibration.yaml --plan plan.json; spec-router advise h200 --no-fits-twice --adaptive"
)
def advise(
    calibration: Annotated[
        str, typer.Argument(help="A calibration file, or a simulated profile: h200, strong, seed.")
    ],
    traffic: Annotated[
        str | None, typer.Option(help="Recorded or made-up load, as for replay; without it, all loads alike.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            help="What `spec-router plan --json` printed: whether two engines fit, whether an adaptive one "
            "runs, and the KV pools. Flags win over it."
        ),
    ] = None,
    rate: Annotated[float, typer.Option(min=1e-6, help="Multiplies the traffic's rate.")] = 1.0,
    accept_length: Annotated[float | None, typer.Option(min=1, help="Of the traffic.")] = None,
    fits_twice: Annotated[
        bool | None, typer.Option("--fits-twice/--no-fits-twice", help="Two engines fit on one set of GPUs.")
    ] = None,
    own_gpus: Annotated[
        bool | None, typer.Option("--own-gpus/--no-own-gpus", help="There is a set of GPUs for each.")
    ] = None,
    adaptive: Annotated[
        bool | None, typer.Option("--adaptive/--no-adaptive", help="One adaptive engine can run.")
    ] = None,
    kv_tokens: Annotated[int | None, typer.Option(min=1, help="KV pool of each of two engines.")] = None,
    kv_tokens_alone: Annotated[int | None, typer.Option(min=1, help="KV pool of one engine alone.")] = None,
    request_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Prompt and answer of a long request; without it, the p95 of the traffic."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say which layout fits: two engines, two pools, one adaptive engine, or one engine of either kind.

    What fits is the plan's to say (--plan), or yours. The simplest layout
    within 2 % of the best is advised, with what would change that.

    Exit status: 0; 2 the input is wrong.
    """
    from router.advise.means import Means
    from router.cli.advise import AdviseOptions, run_advise

    # One number on the command line is for both engines.
    pools = (kv_tokens, kv_tokens_alone, request_tokens, kv_tokens)
    means = Means(fits_twice, own_gpus, adaptive, *pools)
    raise typer.Exit(run_advise(AdviseOptions(calibration, traffic, rate, accept_length, means, json, plan)))
