"""B-28: credentials in logs.

Right value: no marker anywhere: stdout, stderr, error bodies, metrics, status pages (a short hash or the
last 4 characters is fine). The client's `Authorization` reaches the engine unchanged unless the config sets
an engine key, in which case the client's does not go upstream. Internal engine addresses do not appear in
error bodies.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from .conftest import RouterFactory
from .kit.client import CHAT, RawClient, RawResponse, ask, chat_body, good, post, request_bytes
from .kit.conn import EngineConn, Fields, RawRequest
from .kit.engine import FakeEngine
from .kit.quiet import assert_clean_log
from .kit.router import RouterProcess
from .kit.sse import error_body
from .kit.waiting import until

MARKERS = [
    "MARK-bearer-0001",
    "MARK-apikey-0002",
    "MARK-xapikey-0003",
    "MARK-cookie-0004",
    "MARK-query-0005",
    "MARK-prompt-0006",
    "MARK-engine-0007",
    "MARK-router-0008",
    "MARK-admin-0009",
    "MARK-userinfo-0010",
    "MARK-proxyauth-0011",
    "MARK-requestid-0012",
    "MARK-answer-0013",
    "MARK-broken-0014",
]
SECRETS: Fields = (
    ("Authorization", "Bearer MARK-bearer-0001"),
    ("api-key", "MARK-apikey-0002"),
    ("x-api-key", "MARK-xapikey-0003"),
    ("Cookie", "session=MARK-cookie-0004"),
    ("Proxy-Authorization", "Basic MARK-proxyauth-0011"),
)
FAST = {
    "timeouts": {"connect": "500ms", "first_byte": "300ms", "idle": "300ms"},
    "breaker": {"failure_threshold": 1000},
    "retry": {"other_path": 0},
}


def secret_request(*, stream: bool = True, headers: Fields = SECRETS, target: str = CHAT) -> bytes:
    """A request full of markers."""
    body = chat_body(stream=stream, user="MARK-prompt-0006")
    return post(body, target + "?api_key=MARK-query-0005", headers)


def assert_no_marker(text: str, where: str) -> None:
    """None of the markers stands in the text."""
    found = [marker for marker in MARKERS if marker in text]
    assert not found, f"{found} in {where}: {text[max(0, text.find(found[0]) - 300) :][:600]}"


async def play(router: RouterProcess, a: FakeEngine) -> list[RawResponse]:
    """Requests that succeed, fail in every way and are broken; returns the answers."""

    async def bad_request(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(error_body(400, "no"), "400 Bad Request")

    async def broken(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(error_body(500, "no"), "500 Internal Server Error")

    async def silent(conn: EngineConn, request: RawRequest) -> None:
        await conn.pause(30)

    async def reset(conn: EngineConn, request: RawRequest) -> None:
        conn.rst()

    async def garbage(conn: EngineConn, request: RawRequest) -> None:
        await conn.send(b"MARK-answer-0013 this is not HTTP\r\n\r\n")
        conn.fin()

    async def cut(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(b'data: {"t":"MARK-answer-0013"}\n\n')
        conn.rst()

    answers = [await ask(router.data_port, secret_request(stream=stream)) for stream in (True, False)]
    for script in (bad_request, broken, silent, reset, garbage, cut):
        a.script = script
        answers += [await ask(router.data_port, secret_request(stream=stream)) for stream in (True, False)]
    a.use_good_script()
    odd = [
        secret_request(target="/nowhere"),
        post(b'{"MARK-prompt-0006', CHAT + "?api_key=MARK-query-0005", SECRETS),
        request_bytes("GET", "/v1/models?api_key=MARK-query-0005", SECRETS),
        post(chat_body(stream=False), headers=(*SECRETS, ("X-Request-Id", "MARK-requestid-0012 <b>"))),
        b"POST /v1/chat/completions HTTP/1.1\r\nMARK-broken-0014\r\n\r\n",
        b"MARK-broken-0014\r\n\r\n",
        request_bytes("POST", CHAT, (*SECRETS, ("content-length", "MARK-broken-0014"))),
    ]
    answers += [await ask(router.data_port, data) for data in odd]
    client = await RawClient.connect(router.data_port)
    await client.request(secret_request()[:-10])
    client.rst()
    a.down(reset=True)
    answers.append(await ask(router.data_port, secret_request()))
    a.up()
    return answers


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
@pytest.mark.parametrize("form", ["text", "json"])
async def test_no_marker_anywhere(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, level: str, form: str
) -> None:
    """B-28: all log levels and formats, with keys in the config, through every kind of outcome."""
    engine = {"api_key": "MARK-engine-0007", "admin_api_key": "MARK-engine-0007"}
    config: dict[str, Any] = {
        **FAST,
        "log": {"level": level, "format": form},
        "pairs": [
            {
                "name": "default",
                "placement": "shared",
                "speculative": {"url": a.url, **engine},
                "baseline": {"url": b.url, **engine},
            }
        ],
    }
    router = await router_factory(config)
    answers = await play(router, a)
    assert {200, 400, 404, 500, 502, 504} <= {answer.status for answer in answers}
    for answer in answers:
        own = bytes(answer.body).replace(b"MARK-answer-0013", b"")  # the engine's own text may pass
        text = answer.head.raw.decode("latin-1") + own.decode("latin-1")
        assert_no_marker(text, answer.head.line)
        if answer.status >= 400:
            for engine_port in (a.port, b.port):
                assert f":{engine_port}" not in text, text
    for page in ("/metrics", "/admin/status", "/healthz", "/readyz", "/"):
        assert_no_marker((await router.get(page, admin=True)).body.decode(), page)
    await router.terminate()
    assert_no_marker(router.log, "the log")
    assert_clean_log(router.log)


async def test_keys_of_the_router_itself(router_factory: RouterFactory, a: FakeEngine) -> None:
    """B-28: the router's API keys and admin token, right and wrong ones, appear nowhere."""
    router = await router_factory(
        {
            "server": {"api_keys": ["MARK-router-0008"]},
            "admin": {"token": "MARK-admin-0009"},
            "log": {"level": "debug"},
        }
    )
    wrong = await ask(router.data_port, secret_request())
    assert wrong.status == 401
    right = await ask(router.data_port, good((("Authorization", "Bearer MARK-router-0008"),)))
    assert right.status == 200
    host = (("host", f"127.0.0.1:{router.admin_port}"),)
    pages = [wrong, right]
    for token in ("MARK-admin-0009", "MARK-bearer-0001"):
        headers = (*host, ("authorization", f"Bearer {token}"))
        pages += [
            await ask(router.admin_port, request_bytes("GET", t, headers))
            for t in ("/metrics", "/admin/status")
        ]
    for page in pages:
        assert_no_marker((page.head.raw + bytes(page.body)).decode("latin-1"), page.head.line)
    await router.terminate()
    assert_no_marker(router.log, "the log")


async def test_client_key_goes_through(router_factory: RouterFactory, a: FakeEngine) -> None:
    """B-28: without an engine key in the config the client's headers reach the engine unchanged."""
    router = await router_factory()
    await ask(router.data_port, secret_request())
    (request,) = a.requests
    assert request.target == CHAT + "?api_key=MARK-query-0005"
    for name, value in SECRETS:
        assert request.head.all(name) == ([] if name == "Proxy-Authorization" else [value])


@pytest.mark.parametrize("name", ["Authorization", "api-key", "x-api-key"])
async def test_engine_key_replaces_the_clients(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, name: str
) -> None:
    """B-28: with an engine key the client's key does not go upstream, under any name."""
    key = {"api_key": "MARK-engine-0007"}
    pair = {"speculative": {"url": a.url, **key}, "baseline": {"url": b.url, **key}}
    router = await router_factory({"pairs": [{"name": "default", "placement": "shared", **pair}]})
    value = dict(SECRETS)[name]
    for data in (good(((name, value),)), good()):
        assert (await ask(router.data_port, data)).status == 200
    for request in a.requests:
        assert request.head.all("authorization") == ["Bearer MARK-engine-0007"]
        assert value not in str(request.head.headers)
    models = [request for request in a.probes if request.path == "/v1/models"]
    assert all(request.head.all("authorization") == ["Bearer MARK-engine-0007"] for request in models)


@pytest.mark.parametrize("command", ["serve", "check"])
async def test_user_info_in_an_engine_url(router_factory: RouterFactory, a: FakeEngine, command: str) -> None:
    """B-28: a password in an engine's URL is refused or used, and never printed."""
    url = f"http://user:MARK-userinfo-0010@127.0.0.1:{a.port}"
    pair = {"speculative": {"url": url}, "baseline": {"url": f"http://127.0.0.1:{a.port + 1}"}}
    router = await router_factory(
        {"pairs": [{"name": "default", "placement": "shared", **pair}], "log": {"level": "debug"}},
        start=False,
    )
    if command == "check":
        assert_no_marker(run_check(router), "the output of check")
        return
    await router.start(ready=False)
    await until(lambda: not router.alive or "listening" in router.log, 10.0, "a start or a refusal")
    if router.alive:
        await router.wait_ready()
        answer = await ask(router.data_port, good())
        assert_no_marker(bytes(answer.body).decode("latin-1"), "the answer")
        for page in ("/metrics", "/admin/status"):
            assert_no_marker((await router.get(page, admin=True)).body.decode(), page)
    assert_no_marker(router.log, "the log")


def run_check(router: RouterProcess) -> str:
    """Output of `check` on the router's config file."""
    command = [sys.executable, "-m", "router", "check", "-c", str(router.config_file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("fault", ["", "typo"])
async def test_check_masks_secrets(router_factory: RouterFactory, a: FakeEngine, fault: str) -> None:
    """B-28: the printed config, and the message about a broken one, mask every secret."""
    key = {"api_key": "MARK-engine-0007", "admin_api_key": "MARK-engine-0007"}
    typo = {"api_kay": "MARK-engine-0007"} if fault else {}
    pair = {"speculative": {"url": a.url, **key, **typo}, "baseline": {"url": "http://127.0.0.1:1", **key}}
    router = await router_factory(
        {
            "pairs": [{"name": "default", "placement": "shared", **pair}],
            "server": {"api_keys": ["MARK-router-0008"]},
            "admin": {"token": "MARK-admin-0009"},
        },
        start=False,
    )
    output = run_check(router)
    assert "api_k" in output
    assert_no_marker(output, "the output of check")
