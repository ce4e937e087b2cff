"""All commands. What they do is elsewhere; here is only how they are called.

Each command imports what it runs when it runs, so that `serve` does not carry the demo in its memory and
`--help` does not wait for all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from router import __version__
from router.cli.commands import app as operating
from router.cli.deciding import deciding
from router.cli.measuring import measuring
from router.cli.verifying import verifying
from router.core.words import Path as EnginePath
from router.core.words import Placement

app = typer.Typer(
    name="spec-router",
    help="A reverse proxy that sends each request to the faster of two SGLang engines of one model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="The configuration file.")]
Profile = Annotated[
    str, typer.Option(help="Speed of the engines: seed, h200, strong, a calibration or a profile (YAML).")
]
Seed = Annotated[int, typer.Option(help="Fixes everything that is drawn: texts, lengths, accepted drafts.")]
PortNumber = Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")]


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"spec-router {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """See the help of the application."""


@app.command(epilog="Example: spec-router serve -c config.yaml")
def serve(config: ConfigFile = Path("config.yaml")) -> None:
    """Run the router."""
    from router.cli.lean import without

    with without("rich", "pygments"):
        from router.cli.serve import serve as run_serve

    raise typer.Exit(run_serve(config))


@app.command(epilog="Example: spec-router check -c config.yaml --json")
def check(
    config: ConfigFile = Path("config.yaml"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of YAML.")] = False,
) -> None:
    """Validate a configuration and print it with all defaults, secrets masked."""
    from router.cli.check import check as run_check

    raise typer.Exit(run_check(config, json))


@app.command(epilog="Examples: spec-router demo; spec-router demo --seconds 60 --json")
def demo(
    profile: Profile = "strong",
    host: Annotated[str, typer.Option(help="Address of the data port.")] = "127.0.0.1",
    port: PortNumber = 8000,
    admin_port: PortNumber = 29000,
    seconds: Annotated[
        float | None, typer.Option(min=1.0, help="How long the load runs; without it, until Ctrl-C.")
    ] = None,
    seed: Seed = 0,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object at the end, and progress on stderr.")
    ] = False,
) -> None:
    """Show the router at work: two simulated engines, and a load that rises and falls every 30 s.

    The watermarks follow from the profile's crossover N*: up at 1.25 N*,
    back at 0.5 N*. Dwell (3 s) and smoothing (1 s) are shorter than the
    router's defaults (10 s, 2 s), so that a minute shows switches both ways.

    Exit status: 0; 1 if a request failed or stayed open; 2 if it did not start.
    """
    from router.cli.demo import demo as run_demo

    raise typer.Exit(run_demo(profile, host, port, admin_port, seconds, seed, json))


@app.command(
    epilog="Examples: spec-router sim --profile h200 --speculative-port 30001 --baseline-port 30002; "
    "spec-router sim --profile calibration.yaml"
)
def sim(
    profile: Profile = "strong",
    host: Annotated[str, typer.Option(help="Address of both ports.")] = "127.0.0.1",
    speculative_port: PortNumber = 30001,
    baseline_port: PortNumber = 30002,
    seed: Seed = 0,
) -> None:
    """Run only the simulated engines: two SGLang servers on one simulated GPU."""
    from router.cli.sim import Where
    from router.cli.sim import sim as run_sim

    raise typer.Exit(run_sim(profile, Where(host, speculative_port, baseline_port), seed))


@app.command(
    epilog="Examples: spec-router plan -c config.yaml --check-flags; "
    "spec-router plan --model /models/Llama-3.3-70B --draft /models/EAGLE3 --tp 8 --gpu 8x96GiB"
)
def plan(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A configuration with the section launch.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Checkpoint folder; index and config.json will do.")
    ] = None,
    draft: Annotated[Path | None, typer.Option(help="Checkpoint folder of the draft model.")] = None,
    tp: Annotated[int | None, typer.Option(help="GPUs per engine.")] = None,
    gpu: Annotated[
        str | None, typer.Option(help="8x96GiB, 8x97887MiB, 4xh200, or auto to ask the driver (the default).")
    ] = None,
    placement: Annotated[
        Placement | None, typer.Option(help="Both engines on the same GPUs, each on its own, or one engine.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="eagle3-chain, eagle3-tree, ngram, adaptive, baseline.")
    ] = None,
    hardware: Annotated[str | None, typer.Option(help="auto, generic, hopper, blackwell-pcie.")] = None,
    profile_dir: Annotated[
        Path | None, typer.Option(help="Own profiles: speculation/NAME.yaml, hardware/NAME.yaml.")
    ] = None,
    context: Annotated[int | None, typer.Option(help="Longest request in tokens.")] = None,
    speculative_requests: Annotated[int | None, typer.Option(help="Running at most on that path.")] = None,
    baseline_requests: Annotated[int | None, typer.Option(help="Running at most on that path.")] = None,
    kv_share: Annotated[
        float | None, typer.Option(help="The speculative engine's share of KV memory.")
    ] = None,
    kv_dtype: Annotated[str | None, typer.Option(help="auto, bf16, fp8_e4m3.")] = None,
    check_flags: Annotated[
        bool, typer.Option("--check-flags", help="Let SGLang's own parser read both commands.")
    ] = False,
    sglang_python: Annotated[str | None, typer.Option(help="The interpreter that has sglang.")] = None,
    sglang_version: Annotated[
        str | None, typer.Option(help="Whose flags count where no sglang is installed: 0.5.16, 0.5.23.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Plan the memory of two engines on one set of GPUs, and print their commands.

    Flags win over the configuration. Exit status: 0 it fits; 2 the input is wrong; 3 it does not fit, with
    the sum and what would fit, or SGLang does not know a flag.
    """
    from router.cli.plan import PlanOptions
    from router.cli.plan import plan as run_plan

    flags: dict[str, object] = {
        "model": str(model) if model else None,
        "draft": str(draft) if draft else None,
        "tp": tp,
        "gpus": gpu,
        "profile": profile,
        "hardware": hardware,
        "profile_dir": str(profile_dir) if profile_dir else None,
        "context": context,
        "concurrency": _given({"speculative": speculative_requests, "baseline": baseline_requests}),
        "kv_share": kv_share,
        "kv_dtype": kv_dtype,
        "sglang": _given({"python": sglang_python, "version": sglang_version}),
    }
    raise typer.Exit(run_plan(PlanOptions(config, _given(flags), placement, check_flags, json)))


@app.command(
    epilog="Examples: spec-router launch -c config.yaml; spec-router launch -c config.yaml --engine baseline"
)
def launch(
    config: ConfigFile = Path("config.yaml"),
    engine: Annotated[
        EnginePath | None, typer.Option(help="Only this engine, and no router: for a container of its own.")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve/--no-serve", help="Be the router too, once the engines are up.")
    ] = True,
    token_cap: Annotated[
        bool,
        typer.Option(
            "--token-cap/--no-token-cap", help="Fix the KV pools with --max-total-tokens (the default)."
        ),
    ] = True,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object when all is up, and progress on stderr.")
    ] = False,
) -> None:
    """Start the engines one after the other, watch them, restart what dies, and serve as the router.

    The second engine's memory fraction is computed from what is free when
    the first one has settled. An engine that dies later is restarted at a
    fraction of what is free then, while the other goes on serving. Ends by
    SIGTERM or Ctrl-C; no process, GPU memory or port is left.

    Exit status: 0; 1 an engine could not be started, or died too often; 2 the input is wrong or a port is
    taken; 3 it does not fit.
    """
    from router.cli.launch import LaunchOptions
    from router.cli.launch import launch as run_launch

    raise typer.Exit(run_launch(LaunchOptions(config, engine, serve, token_cap, json)))


def _given(flags: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in flags.items() if value not in (None, {})}


app.add_typer(operating)
app.add_typer(measuring)
app.add_typer(deciding)
app.add_typer(verifying)


def main() -> None:
    """Entry point."""
    app()
