"""The admin port: metrics, probes, status, the live page, and what an operator may change.

What can be read is open to whoever reaches the port and holds no secret; changes need the token.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from router.admin.control import control_routes
from router.admin.guard import HostCheck, SafeHeaders, error_response
from router.admin.openapi import describe
from router.admin.status import status_view
from router.admin.view import AdminView
from router.core.failure import TABLE, Kind
from router.observe.exposition import render

_STATIC = Path(__file__).parent / "static"
# The page loads its own two files and asks for the status; nothing else, and nothing from elsewhere.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


def build_admin(
    view: AdminView,
    registry: CollectorRegistry,
    token: str,
    allowed_hosts: Iterable[str],
    bind_host: str,
) -> Starlette:
    """The application of the admin port.

    Args:
        view: the running router.
        registry: its metrics.
        token: what calls that change something must show.
        allowed_hosts: names under which the port may be asked, besides loopback ones and `bind_host`.
        bind_host: the address it listens on.
    """

    async def metrics(request: Request) -> Response:
        body, content_type = render(registry, request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    async def alive(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        if view.draining():
            return JSONResponse({"status": "draining"}, 503)
        is_ready = view.ready()
        answer: dict[str, object] = {"status": "ready" if is_ready else "not ready"}
        if problems := view.watched.pair.problems:
            answer["problems"] = [problem.text for problem in problems]
        return JSONResponse(answer, 200 if is_ready else 503)

    async def status(request: Request) -> Response:
        return JSONResponse(status_view(view))

    async def decisions(request: Request) -> Response:
        return Response(view.decisions(), media_type="application/json")

    async def openapi(request: Request) -> Response:
        return JSONResponse(describe(view.version))

    async def page(request: Request) -> Response:
        html = (_STATIC / "page.html").read_bytes()
        return HTMLResponse(html, headers={"content-security-policy": _PAGE_POLICY})

    app = Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/healthz", alive),
            Route("/health", alive),
            Route("/readyz", ready),
            Route("/admin/status", status),
            Route("/admin/decisions", decisions),
            Route("/openapi.json", openapi),
            Route("/", page),
            Mount("/static", StaticFiles(directory=_STATIC)),
            *control_routes(view.operator, token),
        ],
        middleware=[
            Middleware(SafeHeaders),
            Middleware(HostCheck, bind_host=bind_host, allowed_hosts=tuple(allowed_hosts)),
        ],
        exception_handlers={HTTPException: _refuse, Exception: _refuse},
    )
    app.router.redirect_slashes = False
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    """Starlette's own refusals, in the shape of all others."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    kind = {404: Kind.ROUTE, 405: Kind.METHOD}.get(status, Kind.INTERNAL)
    row = TABLE[kind]
    response = error_response(status, row.message, row.error_type, kind.value)
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    return response
