"""What the measuring process and its client processes say to each other, framed for a pipe.

A frame is its length in four bytes (big-endian) and a MessagePack document.
"""

from __future__ import annotations

import asyncio
from typing import BinaryIO

import msgspec


class Address(msgspec.Struct, frozen=True):
    """Where requests go, and how.

    Attributes:
        host, port: of the server.
        route: path of the URL.
        model: its name there.
        api_key: sent as a bearer token; None: none.
    """

    host: str
    port: int
    route: str
    model: str
    api_key: str | None = None


class Answers(msgspec.Struct, frozen=True):
    """What is asked for.

    Attributes:
        max_tokens: longest answer.
        fixed: every answer has that length (`ignore_eos`), instead of ending by itself.
        temperature: of the sampling; 0 is greedy.
        timeout: seconds for one answer, then it has failed.
    """

    max_tokens: int = 192
    fixed: bool = False
    temperature: float = 0.0
    timeout: float = 300.0


class Load(msgspec.Struct, frozen=True, tag=True):
    """A load that one client process makes until it is told to stop.

    Attributes:
        address: see `Address`.
        prompts: the texts or the messages to choose from.
        answers: see `Answers`.
        slots: requests held in flight, each slot one after the other (closed loop); 0 in an open loop.
        rate: requests per second that come without waiting for answers (open loop); 0 in a closed loop.
        seed: of everything that is drawn; the same load asks the same.
    """

    address: Address
    prompts: list[str | list[dict[str, str]]]
    answers: Answers
    seed: str
    slots: int = 0
    rate: float = 0.0


class Stop(msgspec.Struct, frozen=True, tag=True):
    """No new requests; open ones end. `cut`: they are closed at once."""

    cut: bool = False


class Status(msgspec.Struct, frozen=True, tag=True):
    """How a load is coming on.

    Attributes:
        at: monotonic seconds, the same clock in all processes of a machine.
        cpu: seconds of processor time that the client process has used.
        late: seconds, summed up, by which it came too late to its own alarms, of which there were `beats`.
        chunks: pieces of answers that have arrived.
        warm: slots that have seen a first token or a failure; in an open loop, 1 once the first has ended.
        open: requests that wait for the rest of their answer.
        done, failed: requests that have ended.
    """

    at: float
    cpu: float
    late: float
    beats: int
    chunks: int
    warm: int
    open: int
    done: int
    failed: int


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """One request as its client saw it. Times are monotonic seconds.

    Attributes:
        started, first, ended: when it was sent, its first text came, its last byte did; `first` may be None.
        tokens, prompt_tokens, cached_tokens: by the answer's usage; None where it says nothing.
        problem: why it failed, from a small set; None if it did not.
        chunks: when pieces of the answer arrived.
        path: which engine answered, if it was a router that said so.
    """

    started: float
    first: float | None
    ended: float
    tokens: int
    prompt_tokens: int
    cached_tokens: int | None
    problem: str | None
    chunks: list[float]
    path: str | None = None


class Result(msgspec.Struct, frozen=True, tag=True):
    """All requests of a load, the last message about it."""

    samples: list[Sample]


Order = Load | Stop
Report = Status | Result

_encoder = msgspec.msgpack.Encoder()
orders = msgspec.msgpack.Decoder(Order)
reports = msgspec.msgpack.Decoder(Report)
_LENGTH = 4


def frame(message: Order | Report) -> bytes:
    """The bytes of a message."""
    body = _encoder.encode(message)
    return len(body).to_bytes(_LENGTH, "big") + body


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next frame's document; None at the end."""
    try:
        return await reader.readexactly(int.from_bytes(await reader.readexactly(_LENGTH), "big"))
    except asyncio.IncompleteReadError:
        return None


def write(stream: BinaryIO, message: Report) -> None:
    """Write a message and flush it."""
    stream.write(frame(message))
    stream.flush()
