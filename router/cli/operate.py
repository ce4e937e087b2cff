"""`spec-router status | pin | unpin | drain | undrain | reload`: a running router, asked and changed."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from rich.console import Console
from rich.live import Live

from router.operate.client import AdminClient, Refused
from router.operate.view import status_screen

FAILED = 1


def status(client: AdminClient, *, watch: bool, as_json: bool) -> int:
    """Print what the router is doing; with `watch` again and again until Ctrl-C."""
    console = Console()
    try:
        found = client.get("/admin/status")
        if as_json:
            print(json.dumps(found, indent=2))
        elif watch:
            _watch(client, console, found)
        else:
            console.print(status_screen(found))
    except Refused as error:
        print(error, file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        pass
    return 0


def _watch(client: AdminClient, console: Console, found: dict[str, Any]) -> None:
    with Live(status_screen(found), console=console, screen=console.is_terminal) as live:
        while True:
            time.sleep(1.0)
            live.update(status_screen(client.get("/admin/status")))


def change(client: AdminClient, method: str, target: str, body: dict[str, Any] | None = None) -> int:
    """Make one change and print what the router says to it."""
    try:
        print(json.dumps(client.change(method, target, body)))
    except Refused as error:
        print(error, file=sys.stderr)
        return FAILED
    return 0
