"""`${VAR}` in values: what it becomes, and what is said when it cannot be replaced."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from router.config import Config

Load = Callable[..., Config]
Problems = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("written", "env", "port"),
    [
        ("${PORT:-8100}", {}, 8100),
        ("${PORT:-8100}", {"PORT": ""}, 8100),
        ("${PORT:-8100}", {"PORT": "9000"}, 9000),
        ("${PORT}", {"PORT": " 9000\n"}, 9000),
        ('"${PORT}"', {"PORT": "9000"}, 9000),
        ("${A}${B}", {"A": "90", "B": "00"}, 9000),
        ("1${A:-2}3", {}, 123),
    ],
)
def test_a_number_may_come_from_the_environment(
    load: Load, written: str, env: dict[str, str], port: int
) -> None:
    assert load(f"server:\n  port: {written}\n", env).server.port == port


def test_every_kind_of_value_may_come_from_the_environment(load: Load) -> None:
    text = """
server: {queue_timeout: "${T}s", max_body: "${SIZE}", api_keys: ["${KEY}"], api_keys_file: "${NONE:-}"}
admin: {token: "${TOKEN:-}", host: "${HOST}"}
policy: {kind: "${KIND}", path: "${PATH_}", dwell: "${T}"}
engine: {inject_rid: "${YES}"}
"""
    env = {
        "T": "5",
        "SIZE": "1MiB",
        "KEY": "12345",
        "HOST": "127.0.0.1",
        "KIND": "pinned",
        "PATH_": "baseline",
    }
    config = load(text, {**env, "YES": "true"})
    assert config.server.queue_timeout == 5.0
    assert config.server.max_body == 1 << 20
    assert [key.get_secret_value() for key in config.server.api_keys] == ["12345"]
    assert config.server.api_keys_file is None
    assert config.admin.token.get_secret_value() == ""
    assert (config.policy.kind, config.policy.path, config.policy.dwell) == ("pinned", "baseline", 5.0)
    assert config.engine.inject_rid is True


@pytest.mark.parametrize("nothing", ["", "null", "~"])
def test_an_optional_value_may_be_nothing(load: Load, nothing: str) -> None:
    text = """
policy: {path: "${X}"}
server: {api_keys_file: "${X}"}
pairs: [{placement: single, speculative: {url: "http://a", api_key: "${X}"}}]
"""
    config = load(text, {"X": nothing}, pair="")
    engine = config.pairs[0].speculative
    assert engine is not None
    assert (config.policy.path, config.server.api_keys_file, engine.api_key) == (None, None, None)


def test_what_a_variable_holds_is_not_expanded_again(load: Load) -> None:
    config = load("admin:\n  token: ${A}-$${A}-$A\n", {"A": "${B}"})
    assert config.admin.token.get_secret_value() == "${B}-${A}-$A"


@pytest.mark.parametrize("bad", ["${}", "${1A}", "${A", "${A:?no}", "${A:-x", "${A B}"])
def test_a_reference_that_is_none(problems: Problems, bad: str) -> None:
    (line,) = problems(f"server:\n  host: '{bad}'\n", {"A": "x"})
    assert line.startswith("c.yaml:2: server.host: has a ${ that is not ${NAME} or ${NAME:-default}")


def test_a_variable_that_is_not_set_is_named(problems: Problems) -> None:
    found = problems("server:\n  port: ${PORT}\n  api_keys: ['${KEY}']\n", {"key": "x"})
    assert found == [
        "c.yaml:2: server.port: environment variable PORT is not set; set it or write ${PORT:-default}",
        "c.yaml:3: server.api_keys[0]: environment variable KEY is not set; set it or write ${KEY:-default}",
    ]


def test_an_empty_key_from_the_environment_does_not_open_the_router(problems: Problems) -> None:
    (line,) = problems("server: {api_keys: ['${KEY:-}']}\n")
    assert line.startswith("c.yaml:1: server.api_keys[0]: is empty")


def test_a_wrong_value_from_the_environment_is_shown(problems: Problems) -> None:
    (line,) = problems("server:\n  port: ${PORT}\n", {"PORT": "80x"})
    assert 'server.port: is not a whole number, got "80x"' in line
