from __future__ import annotations

import json
from random import Random

from router.demo.prompts import Prompts, answer_length


def test_the_same_seed_asks_the_same() -> None:
    assert Prompts(1, "sim", 60).body(3, 4) == Prompts(1, "sim", 60).body(3, 4)


def test_seed_user_and_turn_each_change_the_question_but_not_the_shared_prefix() -> None:
    prompts = Prompts(1, "sim", 60)
    bodies = [prompts.body(0, 0), prompts.body(0, 1), prompts.body(1, 0)]
    messages = [json.loads(body)["messages"] for body in bodies]
    assert len({question["content"] for _, question in messages}) == 3
    assert len({system["content"] for system, _ in messages}) == 1
    assert Prompts(2, "sim", 60).body(0, 0) != bodies[0]


def test_a_request_streams_and_asks_for_usage() -> None:
    body = json.loads(Prompts(1, "sim", 60).body(0, 0))
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["model"] == "sim"


def test_lengths_of_answers_lie_around_the_median_and_are_bounded() -> None:
    rng = Random(0)
    lengths = sorted(answer_length(rng, 60) for _ in range(2001))
    assert 55 <= lengths[1000] <= 65
    assert 20 <= lengths[0] < 35
    assert 100 < lengths[-1] <= 180
    assert answer_length(rng, 1) >= 1
