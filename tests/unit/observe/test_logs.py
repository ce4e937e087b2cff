"""The form of logs, and what must never be in them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from router.core.failure import Kind
from router.core.policy import Switch
from router.core.words import Outcome, Path, SwitchReason
from router.observe.logs import LogObserver, configure
from tests.unit.observe.build import record

LIBRARIES = ("uvicorn", "uvicorn.error", "uvicorn.access", "httpx", "httpcore", "asyncio")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in LIBRARIES]
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for logger, its_level in before:
        logger.setLevel(its_level)
    structlog.reset_defaults()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_files_get_one_json_object_a_line_from_us_and_from_libraries() -> None:
    stream = io.StringIO()
    configure("info", "auto", stream)
    structlog.get_logger("router.test").info("hello", n=3)
    logging.getLogger("uvicorn.error").warning("started on %s", "a port")
    ours, theirs = lines(stream)
    assert (ours["event"], ours["n"], ours["level"], ours["logger"]) == ("hello", 3, "info", "router.test")
    assert (theirs["event"], theirs["level"], theirs["logger"]) == (
        "started on a port",
        "warning",
        "uvicorn.error",
    )
    assert ours["timestamp"].endswith("Z")


@pytest.mark.parametrize("form", ["auto", "text", "json"])
def test_a_terminal_gets_text_unless_json_is_asked_for(form: Any) -> None:
    stream = Terminal()
    configure("info", form, stream)
    structlog.get_logger().info("hello")
    assert stream.getvalue().startswith("{") == (form == "json")
    assert "hello" in stream.getvalue()


def test_text_without_a_terminal_has_no_colours() -> None:
    stream = io.StringIO()
    configure("info", "text", stream)
    structlog.get_logger().info("hello", n=3)
    assert "\x1b" not in stream.getvalue()
    assert "n=3" in stream.getvalue()


@pytest.mark.parametrize(("level", "told"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_lines_below_the_level_are_not_written(level: str, told: int) -> None:
    for library in (False, True):
        stream = io.StringIO()
        configure(level, "json", stream)
        log: Any = logging.getLogger("some.library") if library else structlog.get_logger("ours")
        for name in ("debug", "info", "warning", "error"):
            getattr(log, name)("line")
        assert len(lines(stream)) == told


def test_setting_up_twice_writes_every_line_once() -> None:
    stream = io.StringIO()
    configure("info", "json", stream)
    configure("info", "json", stream)
    structlog.get_logger().info("hello")
    assert len(lines(stream)) == 1


def test_libraries_that_log_addresses_are_silenced() -> None:
    stream = io.StringIO()
    configure("debug", "json", stream)
    logging.getLogger("httpx").info("HTTP Request: GET http://engine:30001/ready")
    logging.getLogger("httpcore.connection").debug("connect_tcp.started host='engine'")
    logging.getLogger("uvicorn.access").info('1.2.3.4 - "GET /v1/models?key=SECRET HTTP/1.1" 200')
    assert stream.getvalue() == ""


SECRETS = ("SECRET", "engine-host", "hunter2")


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_cut_out_of_fields_messages_and_tracebacks(form: Any) -> None:
    stream = io.StringIO()
    configure("debug", form, stream)
    log = structlog.get_logger()
    log.info("a", headers={"authorization": "Bearer SECRET"}, body="SECRET", url="http://engine-host/x")
    log.info("a", Authorization="SECRET", api_key="SECRET", token="SECRET", prompt="SECRET", query="q=SECRET")
    log.info(
        "GET /v1/models?key=SECRET failed", target="/generate?x=SECRET", sent="authorization: Bearer SECRET"
    )
    logging.getLogger("lib").error("could not reach http://user:hunter2@engine-host:30001/x?y=SECRET now")
    log.info("a", detail=["http://engine-host/", {"x": "Bearer SECRET"}], data=b"/x?SECRET")
    message = "http://engine-host/ with Bearer " + SECRETS[0]
    try:
        raise ValueError(message)
    except ValueError:
        log.exception("failed")
        logging.getLogger("lib").exception("failed")
    text = stream.getvalue()
    assert not [secret for secret in SECRETS if secret in text]
    assert text.count("ValueError: [address] with Bearer [redacted]") == 2
    assert "/v1/models" in text


@pytest.mark.parametrize("form", ["text", "json"])
def test_nobody_can_write_a_line_of_their_own(form: Any) -> None:
    stream = io.StringIO()
    configure("info", form, stream)
    structlog.get_logger().info("one\ntwo\rthree\x1b[31m", field="four\nfive")
    logging.getLogger("lib").warning("six\nseven\x1b[0m")
    assert len(stream.getvalue().splitlines()) == 2
    assert "\x1b[31m" not in stream.getvalue()
    assert "\x1b[0m" not in stream.getvalue()


def test_a_switch_and_a_failure_are_told_and_an_ordinary_request_only_at_debug() -> None:
    switch = Switch(1.0, Path.SPECULATIVE, Path.BASELINE, 8, 2.125, SwitchReason.HIGH)
    for level, told in (
        ("info", ["switch", "request"]),
        ("debug", ["switch", "request", "retry", "request"]),
    ):
        stream = io.StringIO()
        configure(level, "json", stream)
        observer = LogObserver(structlog.get_logger(), "main")
        observer.on_switch(switch)
        observer.on_finished(record(outcome=Outcome.FAILED, kind=Kind.RESET, status=502))
        observer.on_retry(Path.SPECULATIVE, Path.BASELINE, Kind.RESET)
        observer.on_finished(record())
        found = lines(stream)
        assert [line["event"] for line in found] == told
        assert {line["pair"] for line in found} == {"main"}
    assert found[0]["target"] == "baseline"
    assert found[0]["smoothed_n"] == 2.12
    assert found[1]["kind"] == "engine_reset"
    assert found[3]["status"] == 200
    assert found[3]["duration"] == 2.25
