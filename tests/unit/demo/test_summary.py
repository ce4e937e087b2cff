from __future__ import annotations

import json

from router.core.policy import Switch
from router.core.words import Outcome, Path, SwitchReason
from router.demo.plan import make_plan
from router.demo.reply import Reply
from router.demo.summary import Summary, summarize
from router.demo.tally import Tally
from router.sim import load_profile

SWITCH = Switch(108.5, Path.SPECULATIVE, Path.BASELINE, 13, 12.5, SwitchReason.HIGH)


def summary(*replies: Reply, open_leases: int = 0, profile: str = "strong") -> Summary:
    tally = Tally()
    for each in replies:
        tally.record(each)
    return summarize(
        make_plan(load_profile(profile)),
        tally,
        [SWITCH],
        {Outcome.OK: len(replies)},
        began=100.0,
        seconds=40.2,
        mixed_seconds=1.5,
        open_leases=open_leases,
    )


GOOD = Reply(Path.SPECULATIVE, 0.0, 0.0625, 2.0, 50, None)
BAD = Reply(Path.SPECULATIVE, 0.0, None, 2.0, 0, "status 503")


def test_the_json_has_every_figure() -> None:
    told = json.loads(json.dumps(summary(GOOD).as_json()))
    assert told["switches"] == [
        {"at": 8.5, "from": "speculative", "to": "baseline", "n": 13, "reason": "high"}
    ]
    assert told["paths"]["speculative"] == {
        "requests": 1,
        "tokens": 50,
        "tokens_per_second": 25.0,
        "ttft_p50": 0.0625,
        "ttft_p99": 0.0625,
    }
    assert told["paths"]["baseline"]["tokens_per_second"] is None
    assert (told["requests"], told["failed"], told["open_leases"], told["mixed_seconds"]) == (1, 0, 0, 1.5)
    assert (told["profile"], told["seconds"], told["crossover"]) == ("strong", 40.2, 10)
    assert told["policy"] == {"high": 13, "low": 5, "dwell": 3.0, "smoothing": 1.0, "derived": True}
    assert told["outcomes"] == {"ok": 1}


def test_only_a_clean_end_is_ok() -> None:
    assert summary(GOOD).ok
    assert not summary(GOOD, BAD).ok
    assert not summary(GOOD, open_leases=1).ok


def test_the_verdict_is_in_both_forms() -> None:
    seed = summary(GOOD, profile="seed")
    assert "never wins" in seed.as_json()["verdict"]
    assert seed.lines()[-1] == f"verdict: {seed.as_json()['verdict']}"


def test_the_lines_name_failures_and_switches_and_fit_a_terminal() -> None:
    lines = summary(GOOD, BAD).lines()
    assert "2 requests, 1 failed" in lines[0]
    assert "  failed 1 times: status 503" in lines
    assert "     8.5 s  speculative → baseline at N = 13 (high)" in lines
    assert max(len(line) for line in lines[:-1]) < 80
