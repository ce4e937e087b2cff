"""What is said and done when engines tell what they are."""

from __future__ import annotations

from dataclasses import replace

import structlog
from structlog.testing import capture_logs

from router.control.wiring import Wiring
from router.core.health import BreakerRules, EngineHealth, HealthRules
from router.core.identity import Fault, Identity, KeyRefused
from router.core.ledger import Ledger
from router.core.pair import Pair
from router.core.policy import FixedPolicy, Policy, ThresholdPolicy
from router.core.words import Path, Placement
from tests.support import FakeClock, RecordingObserver

SPECULATIVE, BASELINE = Path
FAST = Identity(True, False, "m", "0.5.23", 4096, 16384, 4090, 48)
PLAIN = replace(FAST, speculative=False)


class Bench:
    def __init__(self, policy: Policy | None = None) -> None:
        clock = FakeClock()
        engines = {path: EngineHealth(BreakerRules(5, 2, 10.0), HealthRules(3, 2)) for path in Path}
        self.pair = Pair(
            "main",
            Placement.SHARED,
            engines,
            policy or ThresholdPolicy(8, 3, 10.0, 2.0),
            Ledger(clock),
            clock,
            RecordingObserver(),
        )
        self.crossings = 0
        self.wiring = Wiring(self.pair, self._cross, structlog.get_logger())

    def _cross(self) -> None:
        self.crossings += 1

    def excluded(self) -> set[Path]:
        return {path for path, engine in self.pair.engines.items() if engine.miswired}


def test_a_problem_is_logged_when_it_comes_and_when_it_goes_and_not_in_between() -> None:
    with capture_logs() as lines:
        bench = Bench()
        bench.wiring.hear(SPECULATIVE, FAST)
        assert lines == []
        for _ in range(3):
            bench.wiring.hear(BASELINE, FAST)
        assert [(line["event"], line["fault"]) for line in lines] == [("wiring problem", "same_kind")]
        assert (bench.excluded(), bench.crossings) == ({BASELINE}, 0)
        assert [problem.fault for problem in bench.pair.problems] == [Fault.SAME_KIND]
        bench.wiring.hear(BASELINE, PLAIN)
    assert [(line["event"], line["fault"]) for line in lines[1:]] == [("wiring problem gone", "same_kind")]
    assert (bench.excluded(), bench.pair.problems) == (set(), ())


def test_swapped_engines_are_crossed_once_and_back_when_that_has_changed() -> None:
    bench = Bench()
    bench.wiring.hear(SPECULATIVE, PLAIN)
    assert (bench.excluded(), bench.crossings) == ({SPECULATIVE}, 0)
    bench.wiring.hear(BASELINE, FAST)
    bench.wiring.judge()
    assert (bench.excluded(), bench.crossings) == ({SPECULATIVE}, 1)
    assert bench.wiring.path_of(SPECULATIVE) is BASELINE
    assert (bench.wiring.identity(SPECULATIVE), bench.wiring.identity(BASELINE)) == (FAST, PLAIN)
    bench.wiring.hear(SPECULATIVE, FAST)
    bench.wiring.hear(BASELINE, PLAIN)
    assert (bench.excluded(), bench.crossings) == (set(), 2)
    assert bench.wiring.path_of(SPECULATIVE) is SPECULATIVE
    assert bench.wiring.identity(SPECULATIVE) == FAST


def test_an_untested_version_is_named_once() -> None:
    with capture_logs() as lines:
        bench = Bench()
        for path in Path:
            for tokens in (1, 2):
                kind = path is SPECULATIVE
                told = Identity(kind, version="0.6.0", max_total_num_tokens=tokens)
                bench.wiring.hear(path, told)
    (line,) = lines
    assert (line["version"], line["tested"]) == ("0.6.0", ["0.5.16", "0.5.23"])
    assert bench.pair.problems == ()


def test_an_engine_that_refuses_the_key_has_no_identity() -> None:
    bench = Bench()
    bench.wiring.hear(BASELINE, KeyRefused(shown=True))
    assert bench.wiring.identity(BASELINE) is None
    assert bench.wiring.identity(SPECULATIVE) is None
    assert bench.excluded() == {BASELINE}


def test_the_watermark_is_judged_again_when_it_changes() -> None:
    bench = Bench(FixedPolicy(SPECULATIVE, "pinned"))
    bench.wiring.hear(SPECULATIVE, FAST)
    assert bench.pair.problems == ()
    bench.pair.policy = ThresholdPolicy(64, 3, 10.0, 2.0)
    bench.wiring.judge()
    assert [problem.fault for problem in bench.pair.problems] == [Fault.HIGH_ABOVE_LIMIT]
