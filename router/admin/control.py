"""The admin calls that change something: pin, drain, reload. All need the token."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from router.admin.guard import error_response, require_token
from router.admin.operator import MAX_PIN_SECONDS, Impossible, Operator
from router.core.words import Path

MAX_BODY = 4096

T = TypeVar("T")

PathName = Literal["speculative", "baseline"]
Reason = Annotated[
    str, msgspec.Meta(min_length=1, max_length=200, description="Why, for the log and the page.")
]
Seconds = Annotated[
    float, msgspec.Meta(gt=0, le=MAX_PIN_SECONDS, description="How long; null: until unpinned.")
]


class PinBody(msgspec.Struct, forbid_unknown_fields=True):
    """Send new requests to one path, whatever the policy says."""

    path: PathName
    reason: Reason
    seconds: Seconds | None = None


class EngineBody(msgspec.Struct, forbid_unknown_fields=True):
    """Names an engine by its path."""

    path: PathName


def control_routes(operator: Operator, token: str) -> list[Route]:
    """The routes that change something.

    Args:
        operator: does it.
        token: what callers must show.
    """
    guarded = require_token(token)

    async def pin(request: Request) -> Response:
        asked = await _body(request, PinBody)
        operator.pin(Path(asked.path), asked.reason, asked.seconds)
        return JSONResponse({"pinned": asked.path})

    async def unpin(request: Request) -> Response:
        return JSONResponse({"unpinned": operator.unpin()})

    async def drain(request: Request) -> Response:
        path = Path((await _body(request, EngineBody)).path)
        operator.drain(path, drained=True)
        return JSONResponse({"drained": path.value})

    async def undrain(request: Request) -> Response:
        path = Path((await _body(request, EngineBody)).path)
        operator.drain(path, drained=False)
        return JSONResponse({"undrained": path.value})

    async def reload(request: Request) -> Response:
        operator.reload()
        return JSONResponse({"reloaded": True})

    return [
        Route("/admin/pin", guarded(_answered(pin)), methods=["POST"]),
        Route("/admin/pin", guarded(_answered(unpin)), methods=["DELETE"]),
        Route("/admin/drain", guarded(_answered(drain)), methods=["POST"]),
        Route("/admin/undrain", guarded(_answered(undrain)), methods=["POST"]),
        Route("/admin/reload", guarded(_answered(reload)), methods=["POST"]),
    ]


class _BadBody(Exception):
    """A body that is not what the call takes."""


async def _body(request: Request, kind: type[T]) -> T:
    data = await request.body()
    if len(data) > MAX_BODY:
        raise _BadBody("the body is too large")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _BadBody(str(error)) from None


def _answered(endpoint: Any) -> Any:
    """Turn what an operator asked wrongly into an error that says so."""

    async def answer(request: Request) -> Response:
        try:
            answered: Response = await endpoint(request)
        except _BadBody as error:
            return error_response(400, f"{error}.", "invalid_request_error", "bad_body")
        except Impossible as error:
            return error_response(409, str(error), "invalid_request_error", "impossible")
        return answered

    return answer
