"""What a right file becomes, and the file that is shipped."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from router.config import Config, load_config, placeholder_thresholds, resolved
from router.core.words import Path as RoutePath
from router.core.words import Placement

Load = Callable[..., Config]
SHIPPED = Path(__file__).parents[3] / "config.yaml"
SHIPPED_PAIR = {
    "speculative": {"url": "http://127.0.0.1:30001"},
    "baseline": {"url": "http://127.0.0.1:30002"},
}


def test_the_shipped_file_holds_the_defaults() -> None:
    assert load_config(SHIPPED, {}) == Config.model_validate({"pairs": [SHIPPED_PAIR]})


def test_the_shipped_file_lists_every_key() -> None:
    def keys(value: object) -> object:
        if isinstance(value, dict):
            return {key: keys(inner) for key, inner in value.items()}
        return [keys(inner) for inner in value] if isinstance(value, list) else None

    assert keys(yaml.safe_load(SHIPPED.read_text())) == keys(resolved(load_config(SHIPPED, {})))


def test_the_shipped_file_loads_fast() -> None:
    before = time.perf_counter()
    load_config(SHIPPED, {})
    assert time.perf_counter() - before < 0.5


def test_the_shipped_file_takes_its_token_from_the_environment() -> None:
    config = load_config(SHIPPED, {"SPEC_ROUTER_ADMIN_TOKEN": "12345"})
    assert config.admin.token.get_secret_value() == "12345"


def test_values_are_plain_seconds_and_bytes(load: Load) -> None:
    config = load(
        "server: {max_body: 1KiB, queue_timeout: 500ms}\ntimeouts: {total: 0}\npolicy: {dwell: 1.5}\n"
    )
    assert (config.server.max_body, config.server.queue_timeout) == (1024, 0.5)
    assert (config.timeouts.total, config.policy.dwell) == (0.0, 1.5)
    assert config.server.body_memory == 1 << 30
    assert config.pairs[0].placement is Placement.SHARED


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("http://10.0.0.1:30001", "http://10.0.0.1:30001"),
        ("http://10.0.0.1:30001/", "http://10.0.0.1:30001"),
        ("HTTP://SGLang_Spec:1", "http://sglang_spec:1"),
        ("http://engine.example", "http://engine.example"),
        ("http://[::1]:1", "http://[::1]:1"),
        ("http://localhost:65535", "http://localhost:65535"),
    ],
)
def test_engine_urls_are_kept_in_one_form(load: Load, written: str, kept: str) -> None:
    config = load("", pair=f"pairs: [{{placement: single, baseline: {{url: '{written}'}}}}]\n")
    engine = config.pairs[0].engine(RoutePath.BASELINE)
    assert engine is not None
    assert engine.url == kept
    assert config.pairs[0].engine(RoutePath.SPECULATIVE) is None


@pytest.mark.parametrize(
    "text",
    [
        "admin: {host: localhost}",
        "admin: {host: '::1'}",
        "admin: {host: 127.0.0.2, allowed_hosts: [Router, 10.1.2.3]}",
        "admin: {host: 0.0.0.0, token: secret}",
        "admin: {port: 8000, host: 127.0.0.1}\nserver: {host: 10.0.0.1}",
        "admin: {port: 0}\nserver: {port: 0}",
        "policy: {kind: pinned, path: speculative}",
        "policy: {high: 2, low: 1}",
        "policy: {high: 1000000000}",
        "policy: {dwell: 0s, smoothing: 0}",
        "server: {queue_size: 0, drain_timeout: 0s}",
        "retry: {other_path: 0}",
        "log: {level: debug, format: json}",
        "# a byte order mark is fine",
        "\ufeffretry: {other_path: 0}",
    ],
)
def test_what_is_allowed(load: Load, text: str) -> None:
    load(text + "\n")


def test_a_configuration_does_not_change(load: Load) -> None:
    config = load("")
    with pytest.raises(ValidationError):
        config.policy.high = 9  # type: ignore[misc]
    assert isinstance(config.server.api_keys, tuple)


def test_what_is_shown_reads_back(load: Load) -> None:
    config = load("server: {max_body: 1536, queue_timeout: 1.25}\npolicy: {kind: pinned, path: baseline}\n")
    shown = resolved(config)
    assert (shown["server"]["max_body"], shown["server"]["queue_timeout"]) == ("1536B", "1250ms")
    assert load(yaml.safe_dump(shown), pair="") == config


@pytest.mark.parametrize(
    ("text", "warn"),
    [
        ("", True),
        ("policy: {high: 8, low: 3}", True),
        ("policy: {high: 9}", False),
        ("policy: {low: 2}", False),
        ("policy: {kind: pinned, path: baseline}", False),
    ],
)
def test_unmeasured_thresholds_are_noticed(load: Load, text: str, warn: bool) -> None:
    assert placeholder_thresholds(load(text + "\n")) is warn


def test_thresholds_mean_nothing_to_a_single_engine(load: Load) -> None:
    pair = "pairs: [{placement: single, speculative: {url: 'http://a'}}]\n"
    assert placeholder_thresholds(load("", pair=pair)) is False


def test_every_section_refuses_unknown_keys() -> None:
    def sections(value: object) -> list[BaseModel]:
        if isinstance(value, tuple):
            return [section for entry in value for section in sections(entry)]
        if not isinstance(value, BaseModel):
            return []
        return [value, *(section for _, inner in value for section in sections(inner))]

    found = sections(load_config(SHIPPED, {}))
    assert len(found) == 17
    for section in found:
        assert section.model_config["extra"] == "forbid"
        assert section.model_config["frozen"] is True
