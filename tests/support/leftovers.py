"""What a test must not leave behind on its event loop: tasks, lost exceptions, errors in the log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import structlog

from tests.cases.kit.waiting import until


class Errors(logging.Handler):
    """Keeps error records; a test that provokes some on purpose clears them.

    `events` are the structured log lines of the router in this process, errors or not.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []
        self.events: list[MutableMapping[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self.seen.append(f"{record.name}: {record.getMessage()} {record.exc_info or ''}")


@contextlib.asynccontextmanager
async def nothing_left() -> AsyncIterator[Errors]:
    """Fail if the block leaves a task running, an exception unhandled or an error in the log."""
    loop = asyncio.get_running_loop()
    before = asyncio.all_tasks()
    lost: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: lost.append(context))
    errors = Errors()
    root = logging.getLogger()
    root.addHandler(errors)
    try:
        with structlog.testing.capture_logs() as errors.events:
            yield errors
    finally:
        root.removeHandler(errors)

    def left() -> set[asyncio.Task[Any]]:
        return asyncio.all_tasks() - before - {asyncio.current_task()}  # type: ignore[arg-type]

    with contextlib.suppress(AssertionError):
        await until(lambda: not left(), 2.0)
    assert not left(), left()
    assert not lost, lost
    assert not errors.seen, errors.seen
    cries = [event for event in errors.events if event["log_level"] in ("error", "critical")]
    assert not cries, cries
