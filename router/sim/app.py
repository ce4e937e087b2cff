"""The HTTP surface of one simulated engine."""

from __future__ import annotations

import asyncio
import contextlib
from time import time as wall_time

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from router.sim import calls, errors, metrics, status
from router.sim.backend import Backend
from router.sim.calls import Call, Json
from router.sim.choice import Format
from router.sim.generation import GenerationRoute
from router.sim.middleware import BearerAuth, HttpCounter
from router.sim.native_format import GenerateFormat, MessagesFormat
from router.sim.openai_format import ChatFormat, CompletionFormat
from router.sim.text import token_id, tokenize


def build_app(backend: Backend) -> ASGIApp:
    """The ASGI application of one engine."""
    control = _Control(backend)
    routes = [*_generation_routes(backend), *control.routes()]
    app: ASGIApp = Starlette(
        routes=routes,
        # SGLang answers with these, which is where `vary: Origin` comes from.
        middleware=[
            Middleware(
                CORSMiddleware,
                allow_origins=["*"],
                allow_credentials=True,
                allow_methods=["*"],
                allow_headers=["*"],
            )
        ],
        exception_handlers={HTTPException: _detail, errors.WireError: _wire_error},
    )
    if backend.params.api_key is not None:
        app = BearerAuth(app, backend.params.api_key)
    return HttpCounter(app, backend, frozenset(route.path for route in routes))


def _generation_routes(backend: Backend) -> list[Route]:
    def route(path: str, endpoint: GenerationRoute, *methods: str) -> Route:
        return Route(path, endpoint, methods=list(methods or ("POST",)))

    native = GenerationRoute(backend, "/generate", calls.generate, _generate_format, errors.native)
    messages = GenerationRoute(backend, "/v1/messages", calls.messages, _messages_format, errors.anthropic)
    return [
        route(
            "/v1/chat/completions", GenerationRoute(backend, "/v1/chat/completions", calls.chat, _chat_format)
        ),
        route(
            "/v1/completions",
            GenerationRoute(backend, "/v1/completions", calls.completion, _completion_format),
        ),
        route("/v1/messages", messages),
        route("/generate", native, "POST", "PUT"),
    ]


def _chat_format(backend: Backend, call: Call, created: int) -> Format:
    return ChatFormat(call, created)


def _completion_format(backend: Backend, call: Call, created: int) -> Format:
    return CompletionFormat(call, created)


def _generate_format(backend: Backend, call: Call, created: int) -> Format:
    return GenerateFormat(
        call, backend.driver.wall, backend.engine.speed.draft_steps, backend.driver.time_scale
    )


def _messages_format(backend: Backend, call: Call, created: int) -> Format:
    return MessagesFormat(call.model)


class _Control:
    """Every route that doesn't generate."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        pairs = ("/tokenize", self.tokenize), ("/detokenize", self.detokenize)
        posts = [("/abort_request", self.abort), ("/v1/embeddings", self.embeddings), *pairs]
        posts.append(("/v1/messages/count_tokens", self.count_tokens))
        posts += [(f"/v1{path}", endpoint) for path, endpoint in pairs]
        gets = [
            ("/", self.root),
            ("/health", self.health),
            ("/health_generate", self.health),
            ("/ready", self.ready),
            ("/ping", self.ready),
            ("/v1/models", self.models),
            ("/v1/models/{model:path}", self.model),
            ("/v1/loads", self.loads),
            ("/server_info", self.server_info),
            ("/get_server_info", self.server_info),
            ("/model_info", self.model_info),
            ("/get_model_info", self.model_info),
            ("/metrics", self.metrics),
        ]
        return [
            *(Route(path, endpoint, methods=["POST"]) for path, endpoint in posts),
            *(Route(path, endpoint, methods=["GET"]) for path, endpoint in gets),
            Route("/flush_cache", self.flush_cache, methods=["GET", "POST"]),
        ]

    async def root(self, request: Request) -> Response:
        return _json("SGLang is running")

    async def health(self, request: Request) -> Response:
        """Sleeps before it looks, as SGLang's does: a probe with a time limit of a second always fails."""
        if self._backend.draining:
            return Response(status_code=503)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if self._backend.hung else self._backend.params.health_seconds):
                await self._backend.closing.wait()
        return Response(status_code=503 if self._backend.draining else 200)

    async def ready(self, request: Request) -> Response:
        return Response(status_code=503 if self._backend.draining else 200)

    async def models(self, request: Request) -> Response:
        return _json({"object": "list", "data": [status.model_card(self._backend, int(wall_time()))]})

    async def model(self, request: Request) -> Response:
        name = request.path_params["model"]
        if name == self._backend.params.model:
            return _json(status.model_card(self._backend, int(wall_time())))
        error = {
            "message": f"The model '{name}' does not exist",
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
        return _json({"error": error}, 404)

    async def loads(self, request: Request) -> Response:
        return _json(status.loads(self._backend, request.query_params.get("include", ""), wall_time()))

    async def server_info(self, request: Request) -> Response:
        return _json(status.server_info(self._backend))

    async def model_info(self, request: Request) -> Response:
        return _json(status.model_info(self._backend))

    async def metrics(self, request: Request) -> Response:
        media_type = "text/plain; version=0.0.4; charset=utf-8"
        return Response(metrics.render(self._backend), headers={"content-type": media_type})

    async def embeddings(self, request: Request) -> Response:
        body = await _document(request)
        if "input" not in body:
            raise errors.missing(request.url.path, "input", body)
        raise errors.bad_request(
            "This model does not appear to be an embedding model by default. "
            "Please add `--is-embedding` when launching the server or try another model."
        )

    async def tokenize(self, request: Request) -> Response:
        body = await _document(request)
        if not isinstance(body.get("prompt"), str):
            raise errors.missing(request.url.path, "prompt", body)
        ids = [token_id(piece) for piece in tokenize(body["prompt"])]
        return _json({"tokens": ids, "count": len(ids), "max_model_len": self._backend.params.context_length})

    async def detokenize(self, request: Request) -> Response:
        body = await _document(request)
        return _json({"text": calls.detokenized(body.get("tokens"))})

    async def count_tokens(self, request: Request) -> Response:
        return _json({"input_tokens": calls.messages(await _document(request)).prompts[0].tokens})

    async def abort(self, request: Request) -> Response:
        body = await _document(request)
        rid = body.get("rid")
        if body.get("abort_all"):
            self._backend.abort(None)
        elif isinstance(rid, str) and rid:
            self._backend.abort(rid)
        return Response()

    async def flush_cache(self, request: Request) -> Response:
        flushed = self._backend.engine.flush_cache()
        outcome = "Cache flushed." if flushed else "Flush cache failed."
        text = (
            f"{outcome}\nPlease check backend logs for more details. "
            "(When there are running or waiting requests, the operation will not be performed.)\n"
        )
        return Response(text, 200 if flushed else 400)


async def _document(request: Request) -> Json:
    body = await request.body()
    path = request.url.path
    if not body:
        raise errors.undecodable(path, body)
    return calls.decode(path, request.headers.get("content-type", ""), body)


def _json(value: object, status_code: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status_code, media_type="application/json")


async def _detail(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    body = msgspec.json.encode({"detail": error.detail})
    return Response(body, error.status_code, headers=error.headers, media_type="application/json")


async def _wire_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.WireError)
    return Response(error.body, error.status, headers={"content-type": error.media_type})
