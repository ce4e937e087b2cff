"""Through the router and straight from the engine: the same answer, byte for byte."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from router.core.words import Path
from router.sim.server import SimulatedPair
from tests.cases.kit.client import RawResponse, ask, post
from tests.integration.conftest import RouterFactory

# What the router adds, takes or writes anew; everything else is the engine's.
ROUTERS_OWN = {"x-request-id", "x-router-path", "x-router-reason", "cache-control", "x-accel-buffering"}
PER_ANSWER = {"date", "connection", "transfer-encoding", "content-length"}

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "Grüße – 你好 🙂"}]
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": MESSAGES, "max_tokens": 20}),
    "chat_stream": (CHAT, {"messages": MESSAGES, "max_tokens": 20, "stream": True}),
    "chat_stream_usage": (
        CHAT,
        {
            "messages": MESSAGES,
            "max_tokens": 9,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        },
    ),
    "completion": ("/v1/completions", {"prompt": "Once", "max_tokens": 9}),
    "completion_stream": ("/v1/completions", {"prompt": "Once", "max_tokens": 9, "stream": True}),
    "messages": ("/v1/messages", {"messages": MESSAGES, "max_tokens": 9}),
    "messages_stream": ("/v1/messages", {"messages": MESSAGES, "max_tokens": 9, "stream": True}),
    "tokenize": ("/tokenize", {"prompt": "to be or not"}),
    "detokenize": ("/v1/detokenize", {"tokens": [300, 301]}),
    "refused": (CHAT, {"messages": MESSAGES, "temperature": -1}),
    "refused_stream": (CHAT, {"messages": [], "stream": True}),
    "too_long": (CHAT, {"messages": MESSAGES, "max_tokens": 1_000_000, "stream": True}),
    "embeddings": ("/v1/embeddings", {"input": "text"}),
    "no_such_route": ("/v1/score", {"input": "text"}),
}


def masked(body: bytes) -> bytes:
    """The body without what differs between two answers of one engine: ids and times."""
    body = re.sub(rb'"created":\d+', b'"created":0', body)
    return re.sub(rb'"id":"[^"]*"', b'"id":""', body)


def own_headers(response: RawResponse) -> dict[str, str]:
    """Headers that come from the engine alone."""
    return {
        name.lower(): value
        for name, value in response.head.headers
        if name.lower() not in ROUTERS_OWN | PER_ANSWER
    }


@pytest.mark.parametrize("path", list(Path))
async def test_answers_are_the_engines(sims: SimulatedPair, start: RouterFactory, path: Path) -> None:
    """Speculation groups tokens by chance, so its streams are compared by what they say, not by event."""
    router = await start(sims.speculative, sims.baseline, policy={"kind": "pinned", "path": path.value})
    direct_port = sims.engine(path).port
    for name, (target, fields) in REQUESTS.items():
        data = post(json.dumps({"model": "sim", "temperature": 0, **fields}).encode(), target)
        direct, through = await ask(direct_port, data), await router.ask(data)
        assert through.status == direct.status, name
        assert own_headers(through) == own_headers(direct), name
        if through.status < 400:
            assert through.path == path.value, name
        if fields.get("stream") and path is Path.SPECULATIVE and through.status == 200:
            assert texts(through.body) == texts(direct.body) != "", name
        else:
            assert masked(through.body) == masked(direct.body), name


def texts(body: bytes | bytearray) -> str:
    """All generated text of a stream, whatever its format."""
    found = re.findall(rb'"(?:content|text)":("(?:[^"\\]|\\.)*")', bytes(body))
    return "".join(json.loads(text) for text in found)


async def test_native_stream(sims: SimulatedPair, start: RouterFactory) -> None:
    """`/generate` has timings in every event: all but those are the engine's bytes."""
    router = await start(sims.speculative, sims.baseline, policy={"kind": "pinned", "path": "baseline"})
    fields = {"text": "Once", "stream": True, "sampling_params": {"max_new_tokens": 9, "temperature": 0}}
    data = post(json.dumps(fields).encode(), "/generate")
    direct, through = await ask(sims.baseline.port, data), await router.ask(data)
    assert len(through.body) > 500
    assert timeless(through.body) == timeless(direct.body)


def timeless(body: bytes | bytearray) -> bytes:
    """Without times, ids and cached prompt tokens: the second to ask hits the cache of the first."""
    body = re.sub(rb"\d+\.\d+(?:e-?\d+)?", b"0", masked(bytes(body)))
    return re.sub(rb'"cached_tokens":\d+', b'"cached_tokens":0', body)
