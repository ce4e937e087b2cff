"""All commands. What they do is elsewhere; here is only how they are called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from router import __version__
from router.cli.check import check as run_check
from router.cli.serve import serve as run_serve

app = typer.Typer(
    name="spec-router",
    help="A reverse proxy that sends each request to the faster of two SGLang engines of one model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="The configuration file.")]


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
    raise typer.Exit(run_serve(config))


@app.command(epilog="Example: spec-router check -c config.yaml --json")
def check(
    config: ConfigFile = Path("config.yaml"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of YAML.")] = False,
) -> None:
    """Validate a configuration and print it with all defaults, secrets masked."""
    raise typer.Exit(run_check(config, json))


def main() -> None:
    """Entry point."""
    app()
