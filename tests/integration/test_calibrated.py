"""The calibrated policy in a router: what it decides with is told, and what it decided can be made again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path as FilePath

from router.calibration import dump_calibration
from router.core.calibration import Key
from router.core.policy import PolicyState, Snapshot, Switch
from router.core.words import Path, Placement
from tests.cases.kit.client import good_ns
from tests.cases.kit.engine import FakeEngine
from tests.cases.kit.waiting import until
from tests.integration.conftest import RouterFactory
from tests.support.holding import Holding
from tests.support.sweeps import linear


async def test_it_switches_with_its_inputs_told_and_recorded(
    start: RouterFactory, a: FakeEngine, b: FakeEngine, tmp_path: FilePath
) -> None:
    file = tmp_path / "calibration.yaml"
    file.write_text(dump_calibration(linear(2.0)))
    old, new = Holding(a), Holding(b)
    router = await start(
        a,
        b,
        policy={
            "kind": "calibrated",
            "calibration": str(file),
            "high": 8,
            "low": 3,
            "shadow": {"kind": "threshold", "high": 6, "low": 3},
        },
    )
    asks = [asyncio.create_task(router.ask(good_ns())) for _ in range(40)]
    pair = router.router.services.pair
    made: list[tuple[PolicyState, Snapshot, Switch]] = []
    pair.on_record = lambda before, seen, switch: made.append((before, seen, switch))
    await until(lambda: old.held + new.held == 40, 5.0)
    await until(lambda: pair.active_path is Path.BASELINE, 20.0, "the load is far above the crossover")
    metrics = await router.metrics()
    crossover = metrics.sum("crossover_estimate", source="calibration")
    assert 1.5 < crossover < 2.5
    online = metrics.sum("crossover_estimate", source="online")
    assert online > crossover, "the engine says 2.1, the calibration 2.0"
    assert metrics.sum("scale_factor", path="speculative") == 1
    assert metrics.sum("break_even_accept_length") > 2.0
    assert metrics.sum("threshold", bound="high") == 1.25 * online
    assert metrics.sum("shadow_switches_total", reason="high") == 1
    state = await router.status()
    assert state["policy"]["kind"] == "calibrated"
    assert state["policy"]["calibrated"]["crossover"] == online
    assert "crossover" in state["switches"][0]["why"]
    old.release()
    new.release()
    await asyncio.gather(*asks)
    assert made
    for before, seen, switch in made:
        assert switch.inputs is None or pair.policy.step(before, seen)[1] == switch


async def test_a_calibration_of_another_version_lets_the_watermarks_decide(
    start: RouterFactory, a: FakeEngine, b: FakeEngine, tmp_path: FilePath
) -> None:
    file = tmp_path / "calibration.yaml"
    file.write_text(dump_calibration(replace(linear(2.0), key=Key(engine="9.9", placement=Placement.SHARED))))
    router = await start(a, b, policy={"kind": "calibrated", "calibration": str(file), "high": 6, "low": 3})
    await until(lambda: router.router.services.pair.policy.kind == "threshold", 5.0)
    state = await router.status()
    assert state["policy"]["high"] == 6
    assert {each["fault"] for each in state["problems"]} == {"calibration_differs"}
    assert "made with engine 9.9" in state["problems"][0]["text"]
