"""Where a test sends its requests, and what it reads out of the answers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from router.core.words import Path
from tests.cases.kit.client import CHAT, End, RawClient, RawResponse, ask, post, request_bytes
from tests.contract.backends import Engine
from tests.sglang_cpu.flags import MODEL
from tests.support.running import Running

Body = dict[str, Any]
SECONDS = 60.0  # a time limit for a busy machine, not what an answer takes


@dataclass(frozen=True, slots=True)
class Spot:
    """An engine, asked at `port`: its own, or that of a router."""

    engine: Engine
    port: int
    path: Path
    router: Running | None = None

    async def chat(self, **fields: Any) -> RawResponse:
        """A chat request."""
        return await self.post(CHAT, chat_body(**fields))

    async def post(self, target: str, body: Body | bytes, **headers: str) -> RawResponse:
        """Any POST. Header names are given with underscores."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
        return await ask(self.port, post(data, target, fields), SECONDS)

    async def get(self, target: str, **headers: str) -> RawResponse:
        """Any GET."""
        fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
        return await ask(self.port, request_bytes("GET", target, fields), SECONDS)

    async def open(self, target: str, body: Body, **headers: str) -> RawClient:
        """Send a request and leave it open; the caller closes it."""
        fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
        client = await RawClient.connect(self.port)
        await client.request(post(json.dumps(body).encode(), target, fields))
        return client


def chat_body(**fields: Any) -> Body:
    """A greedy chat request that ends by its length."""
    message = {"role": "user", "content": "hello world"}
    return {"model": MODEL, "messages": [message], "temperature": 0, "ignore_eos": True, **fields}


def generate_body(tokens: int, text: str = "hello", **fields: Any) -> Body:
    """A greedy /generate request that ends by its length."""
    sampling = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
    return {"text": text, "sampling_params": sampling, **fields}


def raw_events(answer: RawResponse) -> list[bytes]:
    """The events of a complete stream, without its end mark."""
    assert answer.end is End.COMPLETE, (answer.end, bytes(answer.body))
    assert answer.status == 200, bytes(answer.body)
    assert answer.head.get("content-type") == "text/event-stream; charset=utf-8"
    assert answer.body.endswith(b"data: [DONE]\n\n"), bytes(answer.body[-300:])
    return bytes(answer.body).split(b"\n\n")[:-2]


def events(answer: RawResponse) -> list[Body]:
    """The same, decoded."""
    found = raw_events(answer)
    assert all(event.startswith(b"data: ") for event in found), found
    return [json.loads(event.removeprefix(b"data: ")) for event in found]


def masked(data: bytes | bytearray) -> str:
    """Bytes of an answer without what differs from one to the next: ids, times, words, made-up numbers."""
    text = bytes(data).decode()
    text = re.sub(r'"id":"[^"]+"', '"id":"ID"', text)
    text = re.sub(r'"created":\d+', '"created":0', text)
    text = re.sub(r'"(content|text)":"(?:[^"\\]|\\.)+"', r'"\1":"TEXT"', text)
    text = re.sub(r'"(prompt_tokens|total_tokens|input_tokens)":[1-9]\d*', r'"\1":1', text)
    return re.sub(r'"logprob":-?[0-9.e-]+', '"logprob":-1', text)


def text_of(found: list[Body], index: int = 0) -> str:
    """The text of one choice of a chat stream."""
    choices = [choice for event in found for choice in event["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def refusal(answer: RawResponse, status: int) -> Body:
    """The JSON body of a complete answer with that status."""
    assert (answer.status, answer.end) == (status, End.COMPLETE), (answer.head.line, bytes(answer.body))
    body: Body = answer.json()
    return body


def stream_error(answer: RawResponse) -> Body:
    """The error that is the first event of a stream."""
    first: Body = events(answer)[0]
    error: Body = first["error"]
    return error
