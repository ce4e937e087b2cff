"""The seed decides what is asked, and no cell asks what another did: a prefix cache would help it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from router.bench.messages import Answers
from router.bench.prompts import LEAST_PROMPTS, PromptSet, chosen, prompt_sets, together
from router.bench.sweep import Plan
from router.prompt_file import PromptsError
from tests.unit.bench.build import ADDRESS


def sets(wanted: str = "built-in") -> tuple[PromptSet, ...]:
    return prompt_sets(wanted, 64, 8)


@pytest.mark.parametrize("wanted", ["built-in", "shared-prefix"])
def test_the_same_seed_asks_the_same(wanted: str) -> None:
    for one in sets(wanted):
        assert one.of_cell("7", 4) == one.of_cell("7", 4)


@pytest.mark.parametrize("wanted", ["built-in", "shared-prefix"])
def test_another_cell_asks_something_else(wanted: str) -> None:
    """Whatever of the cell differs: its load, its repeat, the seed of all."""
    for prompts in sets(wanted):
        plans = [
            Plan(4, 0.0, prompts),
            Plan(8, 0.0, prompts),
            Plan(0, 2.0, prompts),
            Plan(4, 0.0, prompts, 1),
        ]
        loads = [plan.load(ADDRESS, Answers(), 0) for plan in plans]
        loads.append(plans[0].load(ADDRESS, Answers(), 1))
        asked = [{str(prompt) for prompt in load.prompts} for load in loads]
        common = [len(one & other) for index, one in enumerate(asked) for other in asked[:index]]
        assert max(common) <= 0.02 * LEAST_PROMPTS
        assert len({load.seed for load in loads}) == len(loads)


def test_a_cell_hardly_asks_twice() -> None:
    for prompts in sets():
        asked = prompts.of_cell("0", 64)
        assert len(asked) == 512
        assert max(Counter(map(str, asked)).values()) <= 2


def test_groups_together_come_mixed() -> None:
    """Else the first requests of all slots would be of one kind."""
    both = together(sets())
    assert both.group == "open+copy"
    copies = {str(prompt) for prompt in sets()[1].draw("s", 129)}
    drawn = [prompt in copies for prompt in both.of_cell("s", 4)]
    assert 0.3 < sum(drawn) / len(drawn) < 0.7
    assert 0.2 < sum(drawn[:64]) / 64 < 0.8


def test_a_shared_prefix_is_shared_by_all_cells() -> None:
    (one,) = sets("shared-prefix")
    prompts = [*one.of_cell("0", 1), *one.of_cell("1", 1)]
    assert all(isinstance(prompt, list) for prompt in prompts)
    assert len({prompt[0]["content"] for prompt in prompts if isinstance(prompt, list)}) == 1
    assert len({prompt[1]["content"] for prompt in prompts if isinstance(prompt, list)}) > 400


def test_a_file_gives_all_its_prompts_by_group(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('{"prompt": "one", "group": "chat"}\n"two"\n{"prompt": "three", "group": "chat"}\n')
    chat, rest = sets(str(file))
    assert (chat.group, rest.group) == ("chat", "file")
    assert sorted(map(str, chat.of_cell("0", 1))) == ["one", "three"]
    assert rest.of_cell("0", 500) == ["two"]
    assert chat.repeats


def test_groups_are_chosen_by_name() -> None:
    assert [one.group for one in chosen(sets(), ("copy",))] == ["copy"]
    assert chosen(sets(), ())[0].group == "open"
    with pytest.raises(PromptsError, match="group 'chat' is not among the prompts; allowed: open, copy"):
        chosen(sets(), ("chat",))
