"""`spec-router calibrate` as an operator runs it: a process, between simulated engines in real time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path as FilePath

import pytest

from router.calibration import load_calibration
from router.core.words import Path
from router.sim.params import SimParams
from router.sim.profiles import load_profile
from router.sim.server import SimulatedPair

QUICK = ("--concurrency", "1,4,16", "--repeats", "1", "--seconds", "1", "--warm-up", "0.2", "--group", "open")


class Calibrate:
    """One run, begun by `start`."""

    def __init__(self, process: asyncio.subprocess.Process, folder: FilePath) -> None:
        self.process = process
        self.folder = folder

    @classmethod
    async def start(cls, pair: SimulatedPair, folder: FilePath, *options: str) -> Calibrate:
        urls = ("--speculative", pair.speculative_url, "--baseline", pair.baseline_url)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "router", "calibrate", *urls, "--out", str(folder), *options),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        return cls(process, folder)

    async def ended(self) -> tuple[int, str, str]:
        out, err = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, out.decode(), err.decode()


async def calibrate(pair: SimulatedPair, folder: FilePath, *options: str) -> tuple[int, str, str]:
    return await (await Calibrate.start(pair, folder, *options)).ended()


def engines(profile: str) -> SimulatedPair:
    return SimulatedPair(SimParams(profile=load_profile(profile)), time_scale=2.0)


@pytest.fixture
async def strong() -> AsyncIterator[SimulatedPair]:
    """Two engines that are as fast as the profile `strong` twice over."""
    async with engines("strong") as pair:
        yield pair


async def test_the_crossover_of_the_profile_is_found(strong: SimulatedPair, tmp_path: FilePath) -> None:
    """The curves of `strong` cross at 10; between 4 and 16 a straight line is drawn, so 7 to 12 is right.

    The mixed cells show the shares of the simulated GPU, 0.52 and 0.70, and the files can be used.
    """
    code, out, err = await calibrate(strong, tmp_path, *QUICK, "--no-router", "--json")
    assert code == 0, err
    assert json.loads(out)["verdict"]["kind"] == "part"
    found = load_calibration(tmp_path / "calibration.yaml")
    assert 7 < found.crossover(found.accept_length).n < 12
    assert found.mixed_fraction(Path.BASELINE) == pytest.approx(0.52, abs=0.08)
    assert found.mixed_fraction(Path.SPECULATIVE) == pytest.approx(0.70, abs=0.1)
    assert all(drain > 0 for drain in (*found.baseline.drain_seconds, *found.speculative.drain_seconds))
    assert "kind: calibrated" in (tmp_path / "policy.yaml").read_text()
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_speculation_that_never_pays_is_pinned_away(tmp_path: FilePath) -> None:
    """The user's own parallel benchmark: slower at every load."""
    async with engines("seed") as pair:
        code, _, err = await calibrate(pair, tmp_path, *QUICK, "--no-router", "--seconds", "2")
    assert code == 0, err
    policy = (tmp_path / "policy.yaml").read_text()
    assert "kind: pinned" in policy
    assert "path: baseline" in policy


async def test_swapped_engines_are_refused(strong: SimulatedPair, tmp_path: FilePath) -> None:
    """Before anything is measured."""
    urls = ("--speculative", strong.baseline_url, "--baseline", strong.speculative_url)
    code, _, err = await calibrate(strong, tmp_path, *QUICK, *urls)
    assert code == 2
    assert "swapped" in err


async def test_a_stop_keeps_what_was_measured(strong: SimulatedPair, tmp_path: FilePath) -> None:
    """Exit 130; no thresholds, but a file that can be judged, which says what is missing."""
    run = await Calibrate.start(strong, tmp_path, *QUICK)
    assert run.process.stderr is not None
    while b"speculative, 1 in flight" not in await run.process.stderr.readline():
        pass
    os.kill(run.process.pid, signal.SIGINT)
    code, _, err = await run.ended()
    assert code == 130, err
    assert not (tmp_path / "policy.yaml").exists()
    code, out, _ = await calibrate(strong, tmp_path, "--from", str(tmp_path / "measured.json"), "--json")
    assert code == 1
    assert json.loads(out)["verdict"]["kind"] == "refused"


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_the_router_comes_to_the_better_engine(strong: SimulatedPair, tmp_path: FilePath) -> None:
    """Within 10 % of the better one at 1 and at 16, where the other one is 20 % and more behind."""
    code, _, err = await calibrate(strong, tmp_path, *QUICK, "--json")
    assert code == 0, err
    measured = json.loads((tmp_path / "measured.json").read_text())
    alone = {(cell["path"], cell["concurrency"]): cell["tokens_per_second"] for cell in measured["alone"]}
    for routed in measured["routed"]:
        n = routed["concurrency"]
        better = max(alone["speculative", n], alone["baseline", n])
        assert routed["tokens_per_second"] > 0.9 * better, (routed, alone)
        assert not routed["problems"]
