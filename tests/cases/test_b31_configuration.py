"""B-31: bad configuration: a silent typo, a stuck reload.

Right value: at start an exit code that is not 0 within 5 s, one message with file, key, value and what is
allowed, and no listening socket. On reload a broken file leaves the old configuration in force and says so in
the log and in the metrics; each later good file takes effect, even one that equals the last good one. No
request fails through a reload.
"""

from __future__ import annotations

import asyncio
import copy
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import yaml

from .conftest import RouterFactory
from .kit.client import End, RawClient, ask, good
from .kit.engine import FakeEngine
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess, merged
from .kit.scripts import ticking

START_SECONDS = 15.0  # right value 5; a loaded machine starts slowly

Edit = Callable[[dict[str, Any]], None]


def put(path: str, value: object) -> Edit:
    """Set a key; numbers on the way are list indices."""

    def edit(config: dict[str, Any]) -> None:
        node: Any = config
        *parents, last = path.split(".")
        for part in parents:
            node = node[int(part)] if part.isdigit() else node.setdefault(part, {})
        node[last] = value

    return edit


def rewrite(router: RouterProcess, *edits: Edit) -> None:
    """Change the configuration of a router that has not started."""
    router.config = copy.deepcopy(router.config)
    for edit in edits:
        edit(router.config)
    router.config_file.write_text(yaml.safe_dump(router.config, sort_keys=False))


# What is wrong; what the message must hold beside the file's name.
BAD_VALUES: dict[str, tuple[Edit, tuple[str, ...]]] = {
    "unknown_top": (put("polcy", {}), ("polcy", "policy")),
    "unknown_nested": (put("policy.hihg", 9), ("policy.hihg", "high")),
    "unknown_deep": (put("health.ready.intervall", "1s"), ("health.ready.intervall", "interval")),
    "unknown_in_list": (put("pairs.0.baselin", {}), ("pairs", "baselin", "baseline")),
    "quoted_number": (put("policy.high", "10"), ("policy.high", "10")),
    "negative": (put("policy.high", -1), ("policy.high", "-1")),
    "zero": (put("server.max_active", 0), ("server.max_active", "0")),
    "infinite": (put("policy.high", float("inf")), ("policy.high", "inf")),
    "not_a_number": (put("timeouts.idle", float("nan")), ("timeouts.idle", "nan")),
    "boolean_for_number": (put("server.max_active", True), ("server.max_active", "true")),
    "fraction": (put("policy.high", 8.5), ("policy.high", "8.5")),
    "list_for_number": (put("policy.high", [8]), ("policy.high",)),
    "text_for_mapping": (put("policy", "threshold"), ("policy", "mapping")),
    "null_for_mapping": (put("pairs", None), ("pairs",)),
    "no_pairs": (put("pairs", []), ("pairs",)),
    "bad_duration": (put("timeouts.idle", "10 parsecs"), ("timeouts.idle", "10 parsecs")),
    "bad_size": (put("server.max_body", "64 MB"), ("server.max_body", "64 MB")),
    "bad_word": (put("policy.kind", "treshold"), ("policy.kind", "treshold", "threshold")),
    "port_too_high": (put("server.port", 70000), ("server.port", "70000")),
    "url_with_path": (put("pairs.0.speculative.url", "http://127.0.0.1:1/v1"), ("speculative.url", "/v1")),
    "url_without_scheme": (put("pairs.0.speculative.url", "127.0.0.1:30001"), ("speculative.url", "http")),
    "url_other_scheme": (put("pairs.0.speculative.url", "ftp://127.0.0.1:1"), ("speculative.url", "ftp")),
    "url_empty": (put("pairs.0.baseline.url", ""), ("baseline.url",)),
    "url_with_query": (put("pairs.0.baseline.url", "http://127.0.0.1:1?x=1"), ("baseline.url",)),
    "reversed_thresholds": (put("policy.low", 500), ("policy", "low", "500")),
}
BAD_FILES: dict[str, tuple[Callable[[str], bytes], tuple[str, ...]]] = {
    "empty": (lambda text: b"", ()),
    "only_a_comment": (lambda text: b"# nothing\n", ()),
    "tab_indent": (lambda text: (text + "routing:\n\tallow_path_header: true\n").encode(), ("tab",)),
    "duplicate_key": (lambda text: (text + "policy:\n  high: 9\n").encode(), ("policy", "twice")),
    "yes_for_boolean": (
        lambda text: (text + "routing: {allow_path_header: 'yes'}\n").encode(),
        ("routing.allow_path_header", "yes"),
    ),
    "unclosed": (lambda text: (text + "routing: {allow\n").encode(), ()),
    "a_list": (lambda text: b"- server\n", ()),
    "a_word": (lambda text: b"server\n", ()),
    "not_utf8": (lambda text: text.encode() + b"\n# \xff\xfe\n", ()),
    "binary": (lambda text: bytes(range(256)), ()),
    "unset_variable": (
        lambda text: (text + "routing: ${NO_SUCH_VARIABLE_HERE}\n").encode(),
        ("NO_SUCH_VARIABLE_HERE",),
    ),
}


# Each start costs a second of processor time: the ordinary run takes one of a sort.
ORDINARY = {
    *("unknown_top", "unknown_nested", "quoted_number", "infinite", "bad_word", "url_without_scheme"),
    *("reversed_thresholds", "empty", "tab_indent", "duplicate_key", "missing"),
}


def some_slow(names: Iterable[str]) -> list[object]:
    """The names as parameters, most of them for the full run alone."""
    return [pytest.param(name, marks=() if name in ORDINARY else pytest.mark.slow) for name in names]


async def assert_refused(router: RouterProcess, words: tuple[str, ...]) -> str:
    """It ends soon, without ever listening, with a message that holds the file's name and the words."""
    started = time.monotonic()
    await router.start(ready=False)
    heard = False
    while router.alive:
        assert time.monotonic() - started <= START_SECONDS
        for port in (router.data_port, router.admin_port):
            with socket.socket() as probe:
                heard = heard or probe.connect_ex(("127.0.0.1", port)) == 0
        await asyncio.sleep(0.02)
    assert not heard, "it listened"
    assert router.exit_code not in (0, None)
    log = router.log
    assert "Traceback" not in log, log
    assert str(router.config_file) in log, log
    for word in words:
        assert word.lower() in log.lower(), f"{word!r} is not in: {log}"
    assert len(log.strip().splitlines()) <= 3, log
    return log


@pytest.mark.parametrize("name", some_slow(BAD_VALUES))
async def test_bad_value_at_start(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, name: str
) -> None:
    """B-31: each sort of wrong value."""
    edit, words = BAD_VALUES[name]
    router = await router_factory(start=False)
    rewrite(router, edit)
    await assert_refused(router, words)


@pytest.mark.parametrize("name", some_slow(BAD_FILES))
async def test_bad_file_at_start(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, name: str
) -> None:
    """B-31: files that are no configuration."""
    write, words = BAD_FILES[name]
    router = await router_factory(start=False)
    router.config_file.write_bytes(write(router.config_file.read_text()))
    await assert_refused(router, words)


@pytest.mark.parametrize("what", some_slow(["missing", "folder"]))
async def test_no_file_at_start(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, what: str
) -> None:
    """B-31: no file at all, or a folder."""
    router = await router_factory(start=False)
    router.config_file.unlink()
    if what == "folder":
        router.config_file.mkdir()
    await assert_refused(router, ())


def shout(url: str) -> str:
    """The same address with its host in capitals."""
    return url.replace("localhost", "LOCALHOST")


@pytest.mark.slow
async def test_same_url_twice(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-31: both paths at one address are one engine, and not a pair."""
    router = await router_factory(start=False)
    by_name = a.url.replace("127.0.0.1", "localhost")
    for first, second in ((a.url, a.url), (a.url, a.url + "/"), (by_name, shout(by_name))):
        rewrite(router, put("pairs.0.speculative.url", first), put("pairs.0.baseline.url", second))
        router.stderr_file.unlink(missing_ok=True)
        await assert_refused(router, ("url", str(a.port)))


async def test_trailing_slash(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-31: a slash at the end of a URL is no path: accepted, and requests come out right."""
    router = await router_factory(start=False)
    rewrite(router, put("pairs.0.speculative.url", a.url + "/"))
    await router.start()
    assert (await ask(router.data_port, good())).status == 200
    assert a.requests[0].target == "/v1/chat/completions"


async def test_port_in_use(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-31: a port that somebody has."""
    router = await router_factory(start=False)
    rewrite(router, put("server.port", a.port))
    await router.start(ready=False)
    assert await router.wait_exit(START_SECONDS) != 0
    assert str(a.port) in router.log
    assert "Traceback" not in router.log


# ---- reload


async def reloads(router: RouterProcess) -> tuple[float, float, float]:
    """Good and failed reloads so far, and whether the last was good."""
    metrics = await router.metrics()
    ok, failed = (metrics.sum("config_reloads_total", outcome=outcome) for outcome in ("ok", "failed"))
    return ok, failed, metrics.sum("config_last_reload_successful")


async def high_of(router: RouterProcess) -> float:
    """The upper threshold in force."""
    return (await router.metrics()).sum("threshold", bound="high")


def text(router: RouterProcess, high: int, low: int = 2) -> str:
    """The router's own configuration with other thresholds."""
    return yaml.safe_dump(merged(router.config, {"policy": {"high": high, "low": low}}), sort_keys=False)


def rename_over(router: RouterProcess, content: str) -> None:
    """As editors and Kubernetes do it."""
    beside = router.config_file.with_suffix(".new")
    beside.write_text(content)
    beside.replace(router.config_file)


def write_in_place(router: RouterProcess, content: str) -> None:
    """As a shell does it."""
    router.config_file.write_text(content)


async def wait_high(router: RouterProcess, high: int, within: float = 5.0) -> None:
    """Wait until that threshold is in force."""
    deadline = time.monotonic() + within
    while await high_of(router) != high:
        assert time.monotonic() < deadline, f"high={high} is not in force:\n{router.log[-2000:]}"
        await asyncio.sleep(0.05)


async def wait_reloads(router: RouterProcess, at_least: tuple[float, float], within: float = 5.0) -> None:
    """Wait until so many good and failed reloads have been counted."""
    deadline = time.monotonic() + within
    while True:
        ok, failed, _ = await reloads(router)
        if ok >= at_least[0] and failed >= at_least[1]:
            return
        assert time.monotonic() < deadline, f"{ok} good and {failed} failed, not {at_least}"
        await asyncio.sleep(0.05)


@asynccontextmanager
async def under_load(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> AsyncIterator[None]:
    """Long streams and short requests all the while; none may fail."""
    a.script = b.script = ticking(0.05)
    streams = [await RawClient.connect(router.data_port) for _ in range(3)]
    for client in streams:
        await client.request(good())
        await client.started()
    bad: list[object] = []

    async def short() -> None:
        while True:
            async with await RawClient.connect(router.data_port) as client:
                await client.request(good())
                response = await client.body(100)
                if response.status != 200:
                    bad.append(response.head.line)

    task = asyncio.create_task(short())
    try:
        yield
        assert not task.done(), task.exception()
        assert not bad
        assert {client.responses[0].end for client in streams} == {End.OPEN}
    finally:
        task.cancel()
        for client in streams:
            client.rst()


@pytest.mark.parametrize(
    ("write", "trigger"),
    [
        (rename_over, "file"),
        (write_in_place, "hup"),
        pytest.param(rename_over, "hup", marks=pytest.mark.slow),
        pytest.param(write_in_place, "file", marks=pytest.mark.slow),
    ],
)
async def test_reload(
    router_factory: RouterFactory,
    a: FakeEngine,
    b: FakeEngine,
    write: Callable[[RouterProcess, str], None],
    trigger: str,
) -> None:
    """B-31: good, broken, the same good again, a new good one, under load."""
    router = await router_factory()

    async def put_there(content: str, counts: tuple[float, float]) -> None:
        write(router, content)
        if trigger == "hup":
            router.send_signal(signal.SIGHUP)
        await wait_reloads(router, counts)

    async with under_load(router, a, b):
        await put_there(text(router, 300), (1, 0))
        assert await high_of(router) == 300
        before = len(router.log)
        await put_there("policy: {high: [}\n", (1, 1))
        assert await high_of(router) == 300
        ok, failed, last = await reloads(router)
        assert (failed >= 1, last) == (True, 0)
        assert str(router.config_file) in router.log[before:]
        assert "error" in router.log[before:]
        await put_there(text(router, 300), (ok + 1, failed))
        assert (await reloads(router))[2] == 1
        assert await high_of(router) == 300
        await put_there(text(router, 301), (ok + 2, failed))
        assert await high_of(router) == 301
    await assert_quiet(router, a, b)


async def test_reload_of_a_typo(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-31: a misspelt key on reload is refused like at start; nothing is half applied."""
    router = await router_factory()
    config = merged(router.config, {"policy": {"high": 320, "hihg": 1}})
    write_in_place(router, yaml.safe_dump(config))
    await wait_reloads(router, (0, 1))
    assert await high_of(router) == 400
    assert "policy.hihg" in router.log
    write_in_place(router, text(router, 320))
    await wait_high(router, 320)


async def test_truncated_then_written_in_halves(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    """B-31: a slow writer: whatever the watcher saw between, the whole file takes effect."""
    router = await router_factory()
    content = text(router, 310)
    half = len(content) // 2
    with router.config_file.open("w") as file:
        file.flush()
        await asyncio.sleep(1.3)
        file.write(content[:half])
        file.flush()
        await asyncio.sleep(1.3)
        file.write(content[half:])
    await wait_high(router, 310)
    assert (await reloads(router))[2] == 1
    assert (await ask(router.data_port, good())).status == 200


async def test_file_gone_and_back(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-31: a file that is away for a while is a failed reload, and its return a good one."""
    router = await router_factory()
    content = text(router, 330)
    router.config_file.unlink()
    await asyncio.sleep(1.5)
    assert (await ask(router.data_port, good())).status == 200
    rename_over(router, content)
    await wait_high(router, 330)


async def test_same_size_and_time(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-31: an edit that changes neither the size nor the time stamp is seen by SIGHUP at least."""
    router = await router_factory()
    write_in_place(router, text(router, 340))
    await wait_high(router, 340)
    stat = router.config_file.stat()
    write_in_place(router, text(router, 350))
    os.utime(router.config_file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    router.send_signal(signal.SIGHUP)
    await wait_high(router, 350)


async def test_many_signals(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-31: a burst of SIGHUP under load."""
    router = await router_factory()
    async with under_load(router, a, b):
        for number in range(20):
            write_in_place(router, text(router, 360 + number) if number % 3 else "broken: [")
            router.send_signal(signal.SIGHUP)
            await asyncio.sleep(0.02)
        write_in_place(router, text(router, 390))
        router.send_signal(signal.SIGHUP)
        await wait_high(router, 390)
    await assert_quiet(router, a, b)


async def test_symbolic_link(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-31: Kubernetes swaps a link to a folder."""
    router = await router_factory(start=False)
    folder = router.config_file.parent
    for name, high in (("one", 300), ("two", 370)):
        (folder / name).mkdir()
        (folder / name / "config.yaml").write_text(text(router, high))
    (folder / "data").symlink_to("one")
    router.config_file.unlink()
    router.config_file.symlink_to("data/config.yaml")
    await router.start()
    assert await high_of(router) == 300
    (folder / "data.new").symlink_to("two")
    (folder / "data.new").replace(folder / "data")
    await wait_high(router, 370)


async def test_new_thresholds_move_the_switch(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    """B-31: what was reloaded is what decides."""
    router = await router_factory()
    a.script = b.script = ticking(0.1)
    clients = []
    for _ in range(4):
        client = await RawClient.connect(router.data_port)
        await client.request(good())
        assert (await client.started()).path == "speculative"
        clients.append(client)
    rename_over(router, text(router, 4))
    await wait_high(router, 4)
    client = await RawClient.connect(router.data_port)
    await client.request(good())
    assert (await client.started()).path == "baseline"
    for each in (*clients, client):
        each.rst()
    await assert_quiet(router, a, b)
