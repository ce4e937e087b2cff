"""Counters and histograms fed by records."""

from __future__ import annotations

import re

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from router.core.events import Decision
from router.core.failure import Kind
from router.core.policy import Switch
from router.core.words import DecisionReason, Outcome, Path, Rejection, SwitchReason
from router.observe.exposition import render
from router.observe.metrics import Metrics
from router.observe.state import StateCollector
from tests.support import FakeClock
from tests.unit.observe.build import record, scrape, watched


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def accept() -> list[float | None]:
    """The live accept length, to be changed by a test."""
    return [None]


@pytest.fixture
def metrics(registry: CollectorRegistry, accept: list[float | None]) -> Metrics:
    return Metrics(registry, "main", tuple(Path), lambda: accept[0])


def test_everything_that_can_be_counted_is_there_before_it_happens(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    before = scrape(registry)
    for path in Path:
        for reason in DecisionReason:
            metrics.on_decision(Decision(path, reason))
        metrics.on_retry(path, path, Kind.STALE)
        metrics.on_retry(path, path.other, Kind.BACK_PRESSURE)
        metrics.on_switch(Switch(0.0, path, path.other, 8, 2.0, SwitchReason.HIGH))
    for rejection in Rejection:
        metrics.on_rejected(rejection)
    for path in (*Path, None):
        for outcome in Outcome:
            for kind in (None, *Kind):
                metrics.on_finished(record(path=path, outcome=outcome, kind=kind))
                metrics.on_finished(record(path=path, completion_tokens=None))
    after = scrape(registry)
    assert before.keys() == after.keys()
    assert {value for name, value in before.items() if "bucket" not in name} == {0.0}


def test_a_finished_request_is_counted_once_in_each_place(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.on_finished(record())
    counts = {name: value for name, value in scrape(registry).items() if value and "_bucket" not in name}
    assert counts == {
        "requests_total{outcome=ok,path=baseline}": 1,
        "tokens_total{kind=prompt,path=baseline,source=usage}": 10,
        "tokens_total{kind=completion,path=baseline,source=usage}": 5,
        "time_to_first_token_seconds_count{path=baseline}": 1,
        "time_to_first_token_seconds_sum{path=baseline}": 0.25,
        "time_per_output_token_seconds_count{path=baseline}": 1,
        "time_per_output_token_seconds_sum{path=baseline}": 0.5,
        "request_duration_seconds_count{path=baseline}": 1,
        "request_duration_seconds_sum{path=baseline}": 2.25,
        "queue_wait_seconds_count": 1,
    }


def test_a_rejected_request_has_no_path_and_no_times(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.on_finished(record(path=None, outcome=Outcome.REJECTED, kind=Kind.QUEUE_TIMEOUT, queued_for=30.0))
    counts = {name: value for name, value in scrape(registry).items() if value and "_bucket" not in name}
    assert counts == {
        "requests_total{outcome=rejected,path=none}": 1,
        "failures_total{kind=queue_timeout,path=none}": 1,
        "queue_wait_seconds_count": 1,
        "queue_wait_seconds_sum": 30,
    }


def test_events_of_the_baseline_are_tokens_where_usage_is_silent(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.on_finished(record(completion_tokens=None, prompt_tokens=None, events=9))
    found = scrape(registry)
    assert found["tokens_total{kind=completion,path=baseline,source=estimate}"] == 9
    assert found["tokens_total{kind=prompt,path=baseline,source=usage}"] == 0
    assert found["time_per_output_token_seconds_sum{path=baseline}"] == 0.25


@pytest.mark.parametrize(("length", "tokens"), [(2.5, 20.0), (None, 0.0)])
def test_events_of_speculation_are_multiplied_by_the_accept_length_or_unknown(
    registry: CollectorRegistry,
    metrics: Metrics,
    accept: list[float | None],
    length: float | None,
    tokens: float,
) -> None:
    accept[0] = length
    metrics.on_finished(record(path=Path.SPECULATIVE, completion_tokens=None, events=8))
    found = scrape(registry)
    assert found["tokens_total{kind=completion,path=speculative,source=estimate}"] == tokens
    assert found["time_per_output_token_seconds_count{path=speculative}"] == (1 if length else 0)


@pytest.mark.parametrize("tokens", [0, 1])
def test_less_than_two_tokens_have_no_time_between_them(
    registry: CollectorRegistry, metrics: Metrics, tokens: int
) -> None:
    metrics.on_finished(record(completion_tokens=tokens))
    assert scrape(registry)["time_per_output_token_seconds_count{path=baseline}"] == 0


def test_an_answer_in_one_piece_has_no_first_token(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.on_finished(record(streamed=False, completion_tokens=None))
    found = scrape(registry)
    assert found["time_to_first_token_seconds_count{path=baseline}"] == 0
    assert found["time_per_output_token_seconds_count{path=baseline}"] == 0
    assert found["tokens_total{kind=completion,path=baseline,source=estimate}"] == 0


def test_times_reach_as_far_as_requests_last(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.on_finished(record(first_byte=0.004, duration=1799.0, stream_time=0.004, completion_tokens=5))
    found = scrape(registry)
    assert found["time_to_first_token_seconds_bucket{le=0.005,path=baseline}"] == 1
    assert found["time_to_first_token_seconds_bucket{le=600.0,path=baseline}"] == 1
    assert found["time_per_output_token_seconds_bucket{le=0.001,path=baseline}"] == 1
    assert "time_per_output_token_seconds_bucket{le=2.5,path=baseline}" in found
    assert found["request_duration_seconds_bucket{le=1200.0,path=baseline}"] == 0
    assert found["request_duration_seconds_bucket{le=1800.0,path=baseline}"] == 1


def test_switches_retries_decisions_and_rejections_are_counted_by_reason(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.on_switch(Switch(0.0, Path.SPECULATIVE, Path.BASELINE, 8, 2.0, SwitchReason.HIGH))
    metrics.on_retry(Path.SPECULATIVE, Path.BASELINE, Kind.RESET)
    metrics.on_decision(Decision(Path.BASELINE, DecisionReason.RETRY))
    metrics.on_rejected(Rejection.DRAIN)
    counts = {name: value for name, value in scrape(registry).items() if value}
    assert counts == {
        "switches_total{from=speculative,reason=high,to=baseline}": 1,
        "retries_total{from=speculative,reason=engine_reset,to=baseline}": 1,
        "decisions_total{path=baseline,reason=retry}": 1,
        "rejected_total{reason=drain}": 1,
    }


def test_a_pair_with_one_engine_has_no_series_of_the_other_path(registry: CollectorRegistry) -> None:
    Metrics(registry, "main", (Path.SPECULATIVE,), lambda: None)
    assert not [name for name in scrape(registry) if "baseline" in name]


def _full(registry: CollectorRegistry) -> str:
    Metrics(registry, "main", tuple(Path), lambda: None)
    registry.register(StateCollector(watched(FakeClock()), "1.2.3"))
    body, content_type = render(registry, "text/plain")
    assert content_type.startswith("text/plain; version=0.0.4")
    return body.decode()


def test_names_follow_the_conventions(registry: CollectorRegistry) -> None:
    text = _full(registry)
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert re.fullmatch(r"spec_router_[a-z][a-z0-9_]*[a-z]", family.name), family.name
        assert family.documentation.endswith("."), family.name
        assert family.type in ("counter", "gauge", "histogram"), family.name
        assert not re.search(r"_(ms|milliseconds|minutes|percent|kb|mb)(_|$)", family.name)
        assert not re.search(r"_(counter|gauge|histogram|count|sum|bucket)$", family.name)
        for sample in family.samples:
            assert (family.type == "counter") == sample.name.endswith("_total"), sample.name
            if family.name != "spec_router_build_info":
                assert sample.labels["pair"] == "main"
    assert "_created" not in text
    for name in re.findall(r"^# TYPE (\S+) counter$", text, re.MULTILINE):
        assert name.endswith("_total")


def test_the_scrape_is_small(registry: CollectorRegistry) -> None:
    assert len(_full(registry)) < 64 << 10


def test_open_metrics_are_served_to_who_asks_for_them(registry: CollectorRegistry) -> None:
    _full(registry)
    body, content_type = render(registry, "application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    assert b"_created" not in body
