"""curl: unbuffered streams, HTTP/1.0, an upload of 5 MB in both framings, a stream that is left."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path as File
from typing import Any

import pytest

from router.core.words import Path
from tests.clients.stage import Stage, run

GONE = 28  # curl's exit code for its own time limit
ENGINE_SECONDS = 20.0


@pytest.fixture(params=list(Path), ids=str)
def path(request: pytest.FixtureRequest) -> Path:
    """Each path."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    found: Path = request.param
    return found


def body(stage: Stage, **more: Any) -> str:
    """A chat request."""
    messages = [{"role": "user", "content": "hello world"}]
    common = {"model": stage.model, "messages": messages, "temperature": 0, "ignore_eos": True}
    return json.dumps({**common, "max_tokens": 12, **more})


def curl(url: str, *options: str, codes: tuple[int, ...] = (0,)) -> str:
    """What curl prints: the head, the body, the status."""
    common = ("curl", "--silent", "--show-error", "--noproxy", "*", "--max-time", "90")
    return run([*common, "-H", "content-type: application/json", *options, url], codes=codes)


def masked(answer: str) -> str:
    """Without ids and times."""
    answer = re.sub(r'"id":"[^"]*"', '"id":"ID"', answer)
    return re.sub(r'"(created|e2e_latency)":[0-9.e-]+', r'"\1":0', answer)


def spoken(answer: str) -> tuple[str, str]:
    """A stream's text, however it was cut, and its last event."""
    events = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith("data: ")]
    parts = [json.loads(event)["choices"][0]["delta"].get("content") or "" for event in events[:-1]]
    return "".join(parts), events[-1]


@pytest.mark.parametrize("protocol", ["--http1.1", "--http1.0"])
def test_streams(engines_and_routers: Stage, path: Path, protocol: str) -> None:
    stage = engines_and_routers
    direct, routed = (
        curl(f"{url}/v1/chat/completions", "-N", protocol, "-d", body(stage, stream=True))
        for url in stage.ways(path)
    )
    assert spoken(direct) == spoken(routed)
    assert spoken(direct)[0]
    assert spoken(direct)[1] == "[DONE]"


@pytest.mark.parametrize("protocol", ["--http1.1", "--http1.0"])
def test_whole_answers(engines_and_routers: Stage, path: Path, protocol: str) -> None:
    stage = engines_and_routers
    shown = ("-w", "\n%{http_code} %{content_type}")
    direct, routed = (
        masked(curl(f"{url}/v1/chat/completions", protocol, *shown, "-d", body(stage)))
        for url in stage.ways(path)
    )
    assert direct == routed
    assert direct.endswith("200 application/json")


@pytest.mark.parametrize("framing", [(), ("-H", "transfer-encoding: chunked")], ids=["length", "chunked"])
def test_an_upload_of_5_mb(
    engines_and_routers: Stage, path: Path, framing: tuple[str, ...], tmp_path: File
) -> None:
    """Most of it is a field that nobody reads, so that the answer is one."""
    stage = engines_and_routers
    upload = tmp_path / "body.json"
    upload.write_text(body(stage, user="u" * 5_000_000))
    shown = ("-w", "\n%{http_code} %{size_upload}", "--data-binary", f"@{upload}")
    direct, routed = (
        masked(curl(f"{url}/v1/chat/completions", *framing, *shown)) for url in stage.ways(path)
    )
    assert direct == routed
    status, sent = routed.rsplit("\n", 1)[1].split()
    assert status == "200"
    assert int(sent) >= upload.stat().st_size  # curl counts the chunks' heads as well


def test_a_stream_that_is_left(engines_and_routers: Stage, path: Path) -> None:
    stage = engines_and_routers
    before = stage.cancelled(path)
    for url in stage.ways(path):
        request = body(stage, stream=True, max_tokens=stage.long)
        said = curl(f"{url}/v1/chat/completions", "-N", "--max-time", "1.5", "-d", request, codes=(GONE,))
        assert '"content"' in said
        idle(stage.direct(path))
    assert stage.cancelled(path) == before + 1


def idle(engine: str) -> None:
    """Wait until the engine holds nothing."""
    deadline = time.monotonic() + ENGINE_SECONDS
    while True:
        load = json.loads(curl(f"{engine}/v1/loads?include=core"))["loads"][0]
        if load["num_running_reqs"] == load["num_waiting_reqs"] == 0:
            return
        assert time.monotonic() < deadline, load
        time.sleep(0.2)
