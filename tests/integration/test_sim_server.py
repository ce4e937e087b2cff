"""The simulated pair as a thing to start, stop and share."""

from __future__ import annotations

import asyncio
import time

import httpx
import openai
import pytest

from router.core.words import Path
from router.sim import SimParams, SimulatedPair, run_sim
from tests.integration.sim_client import LIMIT, ask, chat, until

CHAT = "/v1/chat/completions"


async def test_the_openai_client_streams_and_reads_usage() -> None:
    async with (
        SimulatedPair(time_scale=20, model="m", api_key="k") as pair,
        openai.AsyncOpenAI(base_url=f"{pair.speculative_url}/v1", api_key="k") as client,
    ):
        stream = await client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "hello"}],
            max_tokens=30,
            stream=True,
            stream_options={"include_usage": True},
        )
        text, usage = "", None
        async for chunk in stream:
            text += chunk.choices[0].delta.content or "" if chunk.choices else ""
            usage = chunk.usage or usage
        whole = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hello"}], max_tokens=3
        )
        models = await client.models.list()
        with pytest.raises(openai.BadRequestError, match="temperature"):
            await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "x"}], temperature=-1
            )
    assert text
    assert usage is not None
    assert 0 < usage.completion_tokens <= 30
    assert whole.choices[0].message.content
    assert models.data[0].id == "m"


async def test_httpx_reuses_a_connection_and_the_engine_drops_an_idle_one() -> None:
    async with SimulatedPair(time_scale=50) as pair, httpx.AsyncClient(base_url=pair.baseline_url) as client:
        for _ in range(3):
            response = await client.post(CHAT, json=chat(max_tokens=2))
            assert response.status_code == 200
        config = pair.baseline.url
        reader, writer = await asyncio.open_connection("127.0.0.1", int(config.rsplit(":", 1)[1]))
        writer.write(b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        started = time.monotonic()
        async with asyncio.timeout(LIMIT):
            assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
    assert time.monotonic() - started > 4.5


async def test_health_takes_its_second() -> None:
    async with SimulatedPair() as pair:
        started = time.monotonic()
        assert (await ask(pair.baseline.port, "GET", "/health")).status == 200
    assert time.monotonic() - started >= 1.0


async def test_stopping_does_not_wait_for_a_probe() -> None:
    async with SimulatedPair(health_seconds=30) as pair:
        probe = asyncio.create_task(ask(pair.baseline.port, "GET", "/health"))
        await until(lambda: sum(pair.baseline.backend.http_active.values()) == 1)
        await pair.baseline.stop()
        assert (await probe).status == 503


async def test_shutdown_begins_with_the_health_routes_only() -> None:
    async with SimulatedPair() as pair:
        engine = pair.baseline
        held = asyncio.create_task(ask(engine.port, "POST", CHAT, chat(max_tokens=40, ignore_eos=True)))
        await until(lambda: engine.backend.engine.running == 1)
        engine.begin_shutdown()
        for path in ("/ready", "/health"):
            assert (await ask(engine.port, "GET", path)).status == 503
        assert (await ask(pair.speculative.port, "GET", "/ready")).status == 200
        assert (await ask(engine.port, "POST", CHAT, chat(max_tokens=2))).status == 200
        assert (await held).json["usage"]["completion_tokens"] == 40


async def test_an_engine_can_go_and_come_back_on_its_port() -> None:
    async with SimulatedPair() as pair:
        engine, port = pair.speculative, pair.speculative.port
        held = asyncio.create_task(
            ask(port, "POST", CHAT, chat(max_tokens=5000, ignore_eos=True, stream=True))
        )
        await until(lambda: engine.backend.engine.running == 1)
        await engine.stop()
        assert b'"finish_reason":"abort"' in (await held).body
        with pytest.raises(OSError):
            await ask(port, "GET", "/ready")
        assert (await ask(pair.baseline.port, "GET", "/ready")).status == 200
        await engine.start()
        assert engine.port == port
        assert (await ask(port, "POST", CHAT, chat(max_tokens=2))).status == 200


async def test_engines_of_a_shared_gpu_slow_each_other_down_and_separate_ones_do_not() -> None:
    body = chat(max_tokens=60, ignore_eos=True)
    for shared in (True, False):
        async with SimulatedPair(shared=shared, time_scale=5) as pair:
            await asyncio.gather(*(ask(pair.engine(path).port, "POST", CHAT, body) for path in Path))
            assert (pair.mixed_seconds > 0) is shared


async def test_the_accept_length_can_be_set_at_the_start_and_while_running() -> None:
    async with SimulatedPair(accept_length=1.0, time_scale=50) as pair:
        engine = pair.speculative.backend.engine
        body = chat(max_tokens=100, ignore_eos=True)
        await ask(pair.speculative.port, "POST", CHAT, body)
        assert engine.counters.mean_accept_length == pytest.approx(1.0)
        pair.set_accept_length(4.0)
        await ask(pair.speculative.port, "POST", CHAT, body)
        assert engine.counters.verify_calls == 99 + 25


async def test_the_same_seed_says_the_same() -> None:
    texts = []
    for seed in (1, 1, 2):
        async with SimulatedPair(seed=seed, time_scale=50) as pair:
            answers = [await ask(pair.baseline.port, "POST", CHAT, chat()) for _ in range(3)]
            texts.append([(a.json["id"], a.json["choices"], a.json["usage"]) for a in answers])
    assert texts[0] == texts[1] != texts[2]


async def test_lengths_are_natural_bounded_and_never_with_ignore_eos() -> None:
    async with SimulatedPair(natural_length=(20, 0.5), default_max_tokens=30, time_scale=100) as pair:
        answers = [(await ask(pair.baseline.port, "POST", CHAT, chat(str(i)))).json for i in range(20)]
        full = (await ask(pair.baseline.port, "POST", CHAT, chat(ignore_eos=True))).json
    ends = [(a["choices"][0]["finish_reason"], a["usage"]["completion_tokens"]) for a in answers]
    assert {reason for reason, _ in ends} == {"stop", "length"}
    assert all(tokens == 30 if reason == "length" else tokens <= 30 for reason, tokens in ends)
    assert full["usage"]["completion_tokens"] == 30


async def test_a_lone_stream_runs_at_the_profiles_speed() -> None:
    async with SimulatedPair() as pair:
        body = chat(max_tokens=80, ignore_eos=True)
        took = {}
        for path in Path:
            started = time.monotonic()
            await ask(pair.engine(path).port, "POST", CHAT, body)
            took[path] = time.monotonic() - started
    # Never faster than the profile; how much later an answer is read is the test machine's affair.
    assert 0.98 < took[Path.BASELINE] < 3
    assert 0.4 < took[Path.SPECULATIVE] < took[Path.BASELINE]


async def test_three_hundred_streams_at_once() -> None:
    async with SimulatedPair(time_scale=10, max_running_requests=512) as pair:
        body = chat(max_tokens=10, ignore_eos=True, stream=True)
        answers = await asyncio.gather(*(ask(pair.baseline.port, "POST", CHAT, body) for _ in range(300)))
    assert all(len(answer.chunks) == 13 for answer in answers)


async def test_a_taken_port_is_an_error_and_leaves_nothing_running() -> None:
    async with SimulatedPair() as pair:
        other = SimulatedPair(baseline_port=pair.baseline.port)
        with pytest.raises(OSError):
            await other.__aenter__()
        with pytest.raises(OSError):
            await ask(other.speculative.port, "GET", "/ready")


async def test_run_sim_serves_until_cancelled() -> None:
    ready: asyncio.Future[SimulatedPair] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        run_sim(SimParams(profile="h200"), speculative_port=0, baseline_port=0, on_ready=ready.set_result)
    )
    async with asyncio.timeout(LIMIT):
        pair = await ready
    assert (await ask(pair.speculative.port, "GET", "/ready")).status == 200
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(OSError):
        await ask(pair.speculative.port, "GET", "/ready")
