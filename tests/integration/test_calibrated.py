"""The calibrated policy in a router: what it decides with is told, and what it decided can be made again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path as FilePath

import pytest

from router.calibration import dump_calibration
from router.control.parse import read_identity
from router.core.calibration import Key
from router.core.identity import key_of
from router.core.policy import PolicyState, Snapshot, Switch
from router.core.words import Path, Placement
from router.sim.server import SimulatedPair
from tests.cases.kit.client import ask, good_ns, request_bytes
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
    assert metrics.sum("accept_length_in_use") == pytest.approx(2.1, abs=0.02), "measured seconds ago"
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


async def key_of_pair(sims: SimulatedPair) -> Key:
    """The key of the two simulated engines, from what they say of themselves."""
    found = []
    for engine in (sims.speculative, sims.baseline):
        answer = await ask(engine.port, request_bytes("GET", "/server_info"))
        identity = read_identity(bytes(answer.body))
        assert identity is not None
        found.append(identity)
    return key_of(found[0], found[1], Placement.SHARED)


def with_steps(key: Key, steps: int) -> Key:
    fast = {**key.arguments[Path.SPECULATIVE], "speculative_num_steps": steps}
    return replace(key, arguments={**key.arguments, Path.SPECULATIVE: fast})


WRONG = {
    "draft": (
        lambda key: replace(key, draft="another-head"),
        "the speculative engine: it was made with draft another-head, and this is draft sim-eagle3",
    ),
    "one flag": (
        lambda key: with_steps(key, 7),
        "the speculative engine: its speculative engine had speculative_num_steps 7, "
        "and this one has speculative_num_steps 3",
    ),
    "flags that are only a text": (
        lambda key: replace(key, flags="as in July", arguments={}),
        "the engines: it was made with flags as in July, and this is flags ",
    ),
}


@pytest.mark.parametrize(("change", "reason"), WRONG.values(), ids=WRONG)
async def test_a_calibration_with_another_draft_or_flag_says_which_and_lets_the_watermarks_decide(
    start: RouterFactory,
    sims: SimulatedPair,
    tmp_path: FilePath,
    change: Callable[[Key], Key],
    reason: str,
) -> None:
    file = tmp_path / "calibration.yaml"
    made = replace(linear(2.0), key=change(await key_of_pair(sims)))
    file.write_text(dump_calibration(made))
    policy = {"kind": "calibrated", "calibration": str(file), "high": 6, "low": 3}
    router = await start(sims.speculative, sims.baseline, policy=policy)
    await until(lambda: router.router.services.pair.policy.kind == "threshold", 5.0, "the watermarks")
    state = await router.status()
    (problem,) = state["problems"]
    assert problem["fault"] == "calibration_differs"
    assert problem["text"].startswith(f"the calibration does not hold for {reason}")
    assert problem["text"].endswith("; policy.high and policy.low decide instead")
    assert (state["policy"]["kind"], state["policy"]["high"], state["policy"]["low"]) == ("threshold", 6, 3)


async def test_a_calibration_of_just_these_engines_decides(
    start: RouterFactory, sims: SimulatedPair, tmp_path: FilePath
) -> None:
    """Written to a file and read again, the key is that of the engines; each of them has been asked."""
    file = tmp_path / "calibration.yaml"
    file.write_text(dump_calibration(replace(linear(2.0), key=await key_of_pair(sims))))
    policy = {"kind": "calibrated", "calibration": str(file)}
    router = await start(sims.speculative, sims.baseline, policy=policy)
    identity = router.router.wiring.identity
    await until(lambda: all(identity(path) for path in Path), 5.0, "two identities")
    state = await router.status()
    assert (state["policy"]["kind"], state["problems"]) == ("calibrated", [])
    fast = state["paths"]["speculative"]["engine"]
    assert (fast["draft"], fast["arguments"]["speculative_num_steps"]) == ("sim-eagle3", 3)
