"""B-07: path tricks reach what should be closed.

Right value: no engine ever receives a control path in any spelling; the answer is 404 (or 400/403),
OpenAI-shaped, alike for all spellings. Doubled and trailing slash forms of the chat path give 404 or are
served directly; never a redirect, because redirects lose bodies or the Authorization header.
"""

from __future__ import annotations

import pytest

from .kit.client import CHAT, End, RawClient, RawResponse, assert_openai_error, chat_body, post, request_bytes
from .kit.conn import RawRequest
from .kit.engine import FakeEngine
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess

MARK = (("x-case", "b07"), ("authorization", "Bearer sk-test"), ("content-type", "application/json"))
CONTROL = [
    "flush_cache",
    "update_weights_from_disk",
    "update_weights_from_tensor",
    "load_lora_adapter",
    "unload_lora_adapter",
    "abort_request",
    "start_profile",
    "stop_profile",
    "shutdown",
    "release_memory_occupation",
    "pause_generation",
    "set_internal_state",
    "configure_logging",
    "server_info",
    "get_server_info",
    "v1/loads",
    "metrics",
    "admin/status",
    "admin/drain",
    "admin/pin",
    "docs",
    "openapi.json",
]


def spellings(path: str) -> list[str]:
    """Ways to write a path that some party may read as that path."""
    first = f"%{ord(path[0]):02x}"
    return [
        f"/{path}",
        f"/v1/../{path}",
        f"/v1/%2e%2e/{path}",
        f"/v1/%2E%2E/{path}",
        f"/v1/%252e%252e/{path}",
        f"//{path}",
        f"///{path}",
        f"/v1/..%2f{path}",
        f"/v1/..%5c{path}",
        f"/v1/..\\{path}",
        f"/%2F{path}",
        f"/./{path}",
        f"/%2e/{path}",
        f"/v1/..;/{path}",
        f"/;/{path}",
        f"/{path}/",
        f"/{path};x=1",
        f"/{path}%00",
        f"/{path}%20",
        f"/{path}?a=/v1/chat/completions",
        f"/{path.upper()}",
        f"/{first}{path[1:]}",
        f"{CHAT}/../../../{path}",
        f"{CHAT}/..%2f..%2f..%2f{path}",
        f"/v1/models/../../{path}",
        f"/v1/models/%2e%2e/%2e%2e/{path}",
        f"/v1/models/..%2f..%2f{path}",
        f"http://x/{path}",
        f"http://x//{path}",
    ]


def from_client(engine: FakeEngine) -> list[RawRequest]:
    """What reached the engine because of this module's requests."""
    return [request for request in (*engine.requests, *engine.probes) if request.head.all("x-case")]


async def ask_all(port: int, requests: list[bytes]) -> list[RawResponse]:
    """One after another, on one connection as long as it stays open."""
    responses: list[RawResponse] = []
    client = await RawClient.connect(port)
    for data in requests:
        if client.peer_is_gone():
            client.fin()
            client = await RawClient.connect(port)
        responses.append(await client.ask(data))
    client.fin()
    return responses


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("path", CONTROL)
async def test_control_paths(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, path: str, method: str
) -> None:
    """B-07: every spelling is refused in the same way and reaches nobody."""
    body = b"{}" if method == "POST" else None
    targets = spellings(path)
    responses = await ask_all(router.data_port, [request_bytes(method, t, MARK, body) for t in targets])
    assert from_client(a) + from_client(b) == []
    for target, response in zip(targets, responses, strict=True):
        error = assert_openai_error(response, {400, 403, 404})
        assert "location" not in response.head.names(), target
        assert path not in str(error) or path in target
    assert {target: r.status for target, r in zip(targets, responses, strict=True) if r.status != 404} == {}


# What the admin port answers itself.
OWN = ("metrics", "admin", "openapi.json")


@pytest.mark.parametrize("path", [path for path in CONTROL if not path.startswith(OWN)])
async def test_engine_control_from_the_admin_port(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, path: str
) -> None:
    """B-07: the admin port does not pass engine control on either."""
    host = (("host", f"127.0.0.1:{router.admin_port}"),)
    for method, body in (("POST", b"{}"), ("GET", None)):
        requests = [request_bytes(method, target, (*host, *MARK), body) for target in spellings(path)]
        for response in await ask_all(router.admin_port, requests):
            assert 400 <= response.status < 500
    assert from_client(a) + from_client(b) == []


@pytest.mark.parametrize(
    "target",
    [
        "//v1/chat/completions",
        "/v1//chat/completions",
        "/v1/chat/completions/",
        "/v1/chat/completions//",
        "/./v1/chat/completions",
        "/V1/CHAT/COMPLETIONS",
        "/v1/chat%2fcompletions",
        "/v1/chat/completion%73",
        "/v1/chat/completions;x",
        "/v1/chat/completions%00",
        "/v1/chat",
        "/v1",
        "/",
    ],
)
async def test_near_chat_paths(router: RouterProcess, a: FakeEngine, target: str) -> None:
    """B-07: nearly the chat path is 404 or is served; never a redirect."""
    (response,) = await ask_all(router.data_port, [post(chat_body(stream=True), target, MARK[:2])])
    assert response.status in (200, 404)
    if response.status == 200:
        assert (response.end, len(a.requests), a.requests[0].path) == (End.COMPLETE, 1, CHAT)
    else:
        assert_openai_error(response, 404)
        assert from_client(a) == []


@pytest.mark.parametrize(
    "method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "FOO", "CONNECT", "post"]
)
async def test_methods_on_chat(router: RouterProcess, a: FakeEngine, b: FakeEngine, method: str) -> None:
    """Kin of B-07: another method on an open path is refused too."""
    (response,) = await ask_all(router.data_port, [request_bytes(method, CHAT, MARK[:2])])
    assert 400 <= response.status < 500
    assert from_client(a) + from_client(b) == []


@pytest.mark.parametrize(
    "name",
    ["X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Path", "X-HTTP-Method-Override", "X-Forwarded-Prefix"],
)
async def test_override_headers(router: RouterProcess, a: FakeEngine, name: str) -> None:
    """Kin of B-07: a header does not change the path that is served."""
    headers = ((name, "/flush_cache"), *MARK[:2])
    (response,) = await ask_all(router.data_port, [post(chat_body(stream=False), headers=headers)])
    assert response.status == 200
    assert [request.target for request in from_client(a)] == [CHAT]


async def test_absolute_form_of_an_open_path(router: RouterProcess, a: FakeEngine) -> None:
    """Kin of B-07: absolute-form of the chat path is served as the path, or refused."""
    (response,) = await ask_all(
        router.data_port, [post(chat_body(stream=False), "http://x" + CHAT, MARK[:2])]
    )
    assert response.status in (200, 400, 404)
    assert [request.target for request in from_client(a)] in ([], [CHAT])


async def test_quiet(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Nothing is left behind."""
    await assert_quiet(router, a, b)
