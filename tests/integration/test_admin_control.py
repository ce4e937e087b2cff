"""Pin, drain and reload over the admin port, and what is recorded of decisions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path as File
from typing import Any

import httpx
import msgspec
import pytest
import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from router.admin.app import build_admin
from router.admin.operator import Operator
from router.admin.view import AdminView
from router.core.policy import ThresholdPolicy
from router.core.words import Outcome, Path
from router.observe.decisions import DecisionLog, SwitchRecord, first_difference
from router.observe.recent import Recent
from tests.support import FakeClock
from tests.unit.observe.build import watched

TOKEN = "a-token-that-nobody-guesses"


class Stand:
    """An admin app over a pair with a fake clock."""

    def __init__(self, log_file: File) -> None:
        self.clock = FakeClock()
        self.watched = watched(self.clock)
        self.pair = self.watched.pair
        self.reloads: list[bool] = []
        self.out = log_file.open("w")
        self.decisions = DecisionLog("main", lambda: {"kind": "threshold"}, self.clock, lambda: 5.0, self.out)
        self.pair.on_record = self.decisions.record
        view = AdminView(
            "1.2.3",
            self.watched,
            Recent(self.clock, lambda: None),
            ready=self.pair.serving,
            draining=lambda: False,
            wall=lambda: 0.0,
            operator=Operator(
                self.pair, lambda: self._reload if self.reloads else None, structlog.get_logger()
            ),
            decisions=self.decisions.render,
        )
        app = build_admin(view, CollectorRegistry(), TOKEN, (), "127.0.0.1")
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:29000")

    def _reload(self) -> bool:
        return self.reloads.pop()

    async def ask(self, method: str, target: str, body: Any = None, token: str = TOKEN) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return await self.client.request(method, target, json=body, headers=headers)


@pytest.fixture
async def stand(tmp_path: File) -> AsyncIterator[Stand]:
    made = Stand(tmp_path / "decisions.jsonl")
    yield made
    await made.client.aclose()
    made.out.close()


CHANGES = [
    ("POST", "/admin/pin", {"path": "baseline", "reason": "test", "seconds": 60}),
    ("DELETE", "/admin/pin", None),
    ("POST", "/admin/drain", {"path": "baseline"}),
    ("POST", "/admin/undrain", {"path": "baseline"}),
    ("POST", "/admin/reload", None),
]


@pytest.mark.parametrize(("method", "target", "body"), CHANGES)
@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", TOKEN.upper()])
async def test_every_change_needs_the_token(
    stand: Stand, method: str, target: str, body: Any, token: str
) -> None:
    answer = await stand.ask(method, target, body, token)
    assert answer.status_code == 401
    assert answer.json()["error"]["type"] == "authentication_error"
    assert stand.pair.pin is None
    assert not any(engine.drained for engine in stand.pair.engines.values())


async def test_a_pin_holds_for_its_time_and_is_audited(stand: Stand) -> None:
    with capture_logs() as lines:
        answer = await stand.ask("POST", *CHANGES[0][1:])
    assert (answer.status_code, answer.json()) == (200, {"pinned": "baseline"})
    assert stand.pair.active_path is Path.BASELINE
    assert [(line["event"], line["why"], line["audit"]) for line in lines] == [("pinned", "test", True)]
    (shown,) = (await stand.ask("GET", "/admin/status", token="")).json()["pairs"]
    assert shown["pin"] == {"path": "baseline", "reason": "test", "seconds_left": 60.0}
    assert shown["why"] == "New requests go to baseline: pinned by an operator (test)."
    stand.clock.advance(60.0)
    stand.pair.evaluate()
    assert stand.pair.active_path is Path.SPECULATIVE


async def test_unpin(stand: Stand) -> None:
    await stand.ask("POST", "/admin/pin", {"path": "baseline", "reason": "test"})
    assert (await stand.ask("DELETE", "/admin/pin")).json() == {"unpinned": True}
    assert stand.pair.active_path is Path.SPECULATIVE
    assert (await stand.ask("DELETE", "/admin/pin")).json() == {"unpinned": False}


async def test_a_drained_engine_gets_nothing_and_comes_back(stand: Stand) -> None:
    assert (await stand.ask("POST", "/admin/drain", {"path": "speculative"})).json() == {
        "drained": "speculative"
    }
    decision = stand.pair.decide()
    assert decision is not None
    assert decision.path is Path.BASELINE
    await stand.ask("POST", "/admin/undrain", {"path": "speculative"})
    stand.clock.advance(3600.0)
    stand.pair.evaluate()
    decision = stand.pair.decide()
    assert decision is not None
    assert decision.path is Path.SPECULATIVE


async def test_reload_says_whether_it_worked(stand: Stand) -> None:
    assert (await stand.ask("POST", "/admin/reload")).status_code == 409
    stand.reloads = [True]
    assert (await stand.ask("POST", "/admin/reload")).json() == {"reloaded": True}
    stand.reloads = [False]
    answer = await stand.ask("POST", "/admin/reload")
    assert answer.status_code == 409
    assert "old configuration stays" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"path": "both", "reason": "x"},
        {"path": "baseline"},
        {"path": "baseline", "reason": ""},
        {"path": "baseline", "reason": "x" * 201},
        {"path": "baseline", "reason": "x", "seconds": 0},
        {"path": "baseline", "reason": "x", "seconds": -1},
        {"path": "baseline", "reason": "x", "seconds": 1e9},
        {"path": "baseline", "reason": "x", "second": 5},
        {"path": "baseline", "reason": "x" * 5000},
    ],
)
async def test_a_pin_that_is_none_changes_nothing(stand: Stand, body: Any) -> None:
    answer = await stand.ask("POST", "/admin/pin", body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "bad_body"
    assert stand.pair.pin is None


async def test_a_recorded_switch_can_be_made_again(stand: Stand, tmp_path: File) -> None:
    leases = [stand.pair.ledger.open() for _ in range(20)]
    stand.pair.evaluate()
    for lease in leases:
        lease.close(Outcome.OK)
    stand.pair.evaluate()
    stand.clock.advance(120.0)
    stand.pair.evaluate()
    kept = (await stand.ask("GET", "/admin/decisions", token="")).json()["switches"]
    assert [(one["switch"]["reason"], one["switch"]["n"]) for one in kept] == [("high", 20), ("low", 0)]
    lines = (tmp_path / "decisions.jsonl").read_text().splitlines()
    records = [msgspec.json.decode(line, type=SwitchRecord) for line in lines]
    policy = stand.pair.policy
    assert [first_difference(policy, record) for record in records] == [None, None]
    other = ThresholdPolicy(high=50, low=3, dwell=0.0, smoothing=0.0)
    assert first_difference(other, records[0]) == "no switch"


async def test_the_api_describes_every_route_that_it_has(stand: Stand) -> None:
    described = (await stand.ask("GET", "/openapi.json", token="")).json()
    assert described["info"]["version"] == "1.2.3"
    routes = {(method.lower(), target) for method, target, _ in CHANGES}
    assert routes == {
        (method, target)
        for target, methods in described["paths"].items()
        for method, said in methods.items()
        if "security" in said
    }
    for target, methods in described["paths"].items():
        if "get" in methods:
            assert (await stand.ask("GET", target, token="")).status_code in (200, 503)
