"""Frames between the measuring process and its clients arrive whole or not at all."""

from __future__ import annotations

import asyncio
import io

import pytest

from router.bench.messages import (
    Load,
    Result,
    Status,
    Stop,
    frame,
    orders,
    read_frame,
    reports,
    write,
)
from tests.unit.bench.build import load, sample

STATUS = Status(12.5, 0.25, 0.125, 600, 1000, 4, 3, 7, 1)
RESULT = Result([sample(1.0, 2.0, 5, chunks=[1.5, 1.75]), sample(1.0, 3.0, problem="timeout")])


async def frames(data: bytes) -> list[bytes]:
    """All documents of a stream that ends after `data`."""
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    found = []
    while (one := await read_frame(reader)) is not None:
        found.append(one)
    return found


@pytest.mark.parametrize(
    "order", [load(), load(0, 2.5), Stop(), Stop(cut=True), load(prompts=["Grüße 🌍", ""])]
)
async def test_orders_come_as_they_were_sent(order: Load | Stop) -> None:
    (found,) = await frames(frame(order))
    assert orders.decode(found) == order


async def test_messages_as_prompts_keep_their_roles() -> None:
    asked = Load(load().address, [[{"role": "user", "content": "Hi"}]], load().answers, "0", 1)
    (found,) = await frames(frame(asked))
    assert orders.decode(found) == asked


async def test_reports_follow_each_other() -> None:
    pipe = io.BytesIO()
    for report in (STATUS, RESULT, STATUS):
        write(pipe, report)
    assert [reports.decode(one) for one in await frames(pipe.getvalue())] == [STATUS, RESULT, STATUS]


async def test_a_large_result_is_one_frame() -> None:
    """An hour's chunks are millions of bytes, far above any buffer of a pipe or a stream."""
    result = Result([sample(0.0, 1.0, 1000, chunks=[number / 1e3 for number in range(1000)])] * 200)
    (found,) = await frames(frame(result))
    assert reports.decode(found) == result


@pytest.mark.parametrize("kept", range(len(frame(STATUS))))
async def test_a_stream_that_ends_in_mid_frame_has_ended(kept: int) -> None:
    """A client process that was killed leaves half a message, which is none."""
    found = await frames(frame(RESULT) + frame(STATUS)[:kept])
    assert [reports.decode(one) for one in found] == [RESULT]
