"""Commands for a running router and for what it has recorded: how they are called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from router.core.words import Path as PathName

app = typer.Typer()

ADMIN_URL = "http://127.0.0.1:29000"
AdminUrl = Annotated[
    str, typer.Option("--admin", envvar="SPEC_ROUTER_ADMIN", help="URL of the router's admin port.")
]
AdminToken = Annotated[
    str,
    typer.Option("--token", envvar="SPEC_ROUTER_ADMIN_TOKEN", help="The admin token.", show_default=False),
]


@app.command(epilog="Example: spec-router status --watch")
def status(
    watch: Annotated[bool, typer.Option("--watch", help="Again and again, until Ctrl-C.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    admin: AdminUrl = ADMIN_URL,
) -> None:
    """Show what a running router is doing and why."""
    from router.cli.operate import status as show_status
    from router.operate.client import AdminClient

    raise typer.Exit(show_status(AdminClient(admin), watch=watch, as_json=json))


@app.command(epilog="Example: spec-router pin baseline --seconds 600 --reason 'benchmark'")
def pin(
    path: Annotated[PathName, typer.Argument(help="speculative or baseline")],
    reason: Annotated[str, typer.Option("--reason", help="Why; shown on the page and in the log.")],
    seconds: Annotated[float | None, typer.Option("--seconds", help="How long; else until unpinned.")] = None,
    admin: AdminUrl = ADMIN_URL,
    token: AdminToken = "",
) -> None:
    """Send new requests to one path for a while, whatever the policy says."""
    body = {"path": path.value, "reason": reason, "seconds": seconds}
    raise typer.Exit(_change(admin, token, "POST", "/admin/pin", body))


@app.command(epilog="Example: spec-router unpin")
def unpin(admin: AdminUrl = ADMIN_URL, token: AdminToken = "") -> None:
    """Let the policy decide again."""
    raise typer.Exit(_change(admin, token, "DELETE", "/admin/pin"))


@app.command(epilog="Example: spec-router drain speculative")
def drain(
    path: Annotated[PathName, typer.Argument(help="speculative or baseline")],
    undo: Annotated[bool, typer.Option("--undo", help="Let requests come again.")] = False,
    admin: AdminUrl = ADMIN_URL,
    token: AdminToken = "",
) -> None:
    """Keep new requests from an engine; open ones finish."""
    target = "/admin/undrain" if undo else "/admin/drain"
    raise typer.Exit(_change(admin, token, "POST", target, {"path": path.value}))


@app.command(epilog="Example: spec-router reload")
def reload(admin: AdminUrl = ADMIN_URL, token: AdminToken = "") -> None:
    """Make a running router take up its configuration file."""
    raise typer.Exit(_change(admin, token, "POST", "/admin/reload"))


@app.command(epilog="Example: spec-router explain decisions.jsonl")
def explain(
    file: Annotated[Path, typer.Argument(help="What log.decisions has written.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Replay recorded switches through the policy that made them; exit 1 at a difference."""
    from router.cli.explain import explain as run_explain

    raise typer.Exit(run_explain(file, json))


def _change(admin: str, token: str, method: str, target: str, body: dict[str, Any] | None = None) -> int:
    from router.cli.operate import change
    from router.operate.client import AdminClient

    return change(AdminClient(admin, token), method, target, body)
