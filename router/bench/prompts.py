"""What is asked: a built-in set in two groups, a file, or synthetic prompts that share a prefix.

Built-in and synthetic prompts are drawn anew for every cell, so that no answer to an earlier cell's prompt is
still in the server's prefix cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from random import Random

from router.bench.call import Prompt
from router.prompt_file import PromptsError, read_lines

BUILT_IN = "built-in"
SHARED_PREFIX = "shared-prefix"
# Prompts of a cell, at the least, and by the requests in flight.
LEAST_PROMPTS = 256
PROMPTS_PER_SLOT = 8
# English words of a token, roughly; the report shows the tokens that the server counted.
WORDS_PER_TOKEN = 0.75

_SUBJECTS = """a lighthouse on a rocky coast;the history of paper;how bread rises;a chess match in a train;
the life of a river;repairing an old bicycle;a market at dawn;why leaves turn red;a letter that came too late;
the first telescope;building a stone wall;migration of birds;a winter in the mountains;how a lock works;
the sound of a cello;a school for sailors;growing tomatoes;maps before satellites;the trade in salt;
a clockmaker and his daughter;how bridges carry loads;a village without a name;the tides;brewing tea;
a library under water;the invention of zero;a walk through a forest after rain;how glass is made;
the rules of a card game;a night at an observatory"""
SUBJECTS = tuple(subject.strip() for subject in _SUBJECTS.split(";"))
NAMES = ("Ada", "Boris", "Chen", "Dalia", "Emeka", "Freya", "Goran", "Hana", "Ivo", "Jamila", "Kofi", "Lena")
PLACES = (
    "Bergen",
    "Cusco",
    "Dakar",
    "Galway",
    "Hanoi",
    "Izmir",
    "Kyoto",
    "Lviv",
    "Mombasa",
    "Porto",
    "Quito",
)
_OPEN = (
    "Write a short story about {subject}. It is set in {place} in the year {year}, and its hero is {name}.",
    "Explain to {name}, who is {age} years old and lives in {place}, what is interesting about {subject}.",
    "{name} from {place} asks: what should I know about {subject}? Answer in {count} paragraphs.",
    "Compose a speech that {name} gives in {place} about {subject} to {count} hundred people.",
)
_COPY = (
    "Repeat the following list word for word, then repeat it once more:\n{list}",
    "Write the following table as JSON, one object for each line, with all fields:\n{table}",
    "Correct the spelling in this text and change nothing else; give the whole text:\n{text}",
    "Continue this pattern for {count} more lines, exactly in the same form:\n{table}",
)


@dataclass(frozen=True, slots=True)
class PromptSet:
    """Prompts of one kind.

    Attributes:
        group: its name.
        draw: the prompts of a cell, by a seed and how many are wanted; a file gives all it has.
        repeats: whether cells may ask the same again.
    """

    group: str
    draw: Callable[[str, int], Sequence[Prompt]]
    repeats: bool = False

    def of_cell(self, seed: str, slots: int) -> list[Prompt]:
        """The prompts of a cell with so many requests in flight, in the order in which they are asked."""
        prompts = list(self.draw(seed, max(LEAST_PROMPTS, PROMPTS_PER_SLOT * slots)))
        Random(seed).shuffle(prompts)
        return prompts


def built_in() -> tuple[PromptSet, ...]:
    """`open`: a text could go on in many ways; `copy`: it can hardly, so drafts are long."""
    return (PromptSet("open", _drawn(_open_one)), PromptSet("copy", _drawn(_copy_one)))


def shared_prefix(prefix_tokens: int, question_tokens: int) -> tuple[PromptSet, ...]:
    """A system prompt that all share, and a question of their own; about so many tokens each."""

    def draw(seed: str, count: int) -> list[Prompt]:
        # The prefix is the same in every cell: that it is cached is the point.
        system = synthetic(Random("prefix"), prefix_tokens)
        rng = Random(seed)
        return [
            [
                {"role": "system", "content": system},
                {"role": "user", "content": synthetic(rng, question_tokens)},
            ]
            for _ in range(count)
        ]

    return (PromptSet(SHARED_PREFIX, draw),)


def from_file(path: FilePath) -> tuple[PromptSet, ...]:
    """The prompts of a file by their groups. Raises PromptsError."""
    groups: dict[str, list[Prompt]] = {}
    for line in read_lines(path):
        groups.setdefault(line.group or "file", []).append(line.prompt)
    return tuple(PromptSet(group, _all(prompts), repeats=True) for group, prompts in groups.items())


def chosen(sets: Sequence[PromptSet], groups: Sequence[str]) -> tuple[PromptSet, ...]:
    """The sets with these names; all where none is named. Raises PromptsError."""
    known = [one.group for one in sets]
    for group in groups:
        if group not in known:
            raise PromptsError(f"group {group!r} is not among the prompts; allowed: {', '.join(known)}")
    return tuple(one for one in sets if not groups or one.group in groups)


def together(sets: Sequence[PromptSet]) -> PromptSet:
    """One set of all of them."""

    def draw(seed: str, count: int) -> list[Prompt]:
        return [prompt for one in sets for prompt in one.draw(seed, count // len(sets) + 1)]

    return PromptSet("+".join(one.group for one in sets), draw, any(one.repeats for one in sets))


def _all(prompts: Sequence[Prompt]) -> Callable[[str, int], Sequence[Prompt]]:
    return lambda seed, count: prompts


def _drawn(make: Callable[[Random], str]) -> Callable[[str, int], list[Prompt]]:
    def draw(seed: str, count: int) -> list[Prompt]:
        rng = Random(seed)
        return [make(rng) for _ in range(count)]

    return draw


def _open_one(rng: Random) -> str:
    return rng.choice(_OPEN).format(
        subject=rng.choice(SUBJECTS),
        place=rng.choice(PLACES),
        name=rng.choice(NAMES),
        year=rng.randint(1600, 2020),
        age=rng.randint(6, 90),
        count=rng.randint(2, 9),
    )


def _copy_one(rng: Random) -> str:
    rows = [f"{rng.choice(NAMES)}, {rng.choice(PLACES)}, {rng.randint(1, 999)}" for _ in range(12)]
    return rng.choice(_COPY).format(
        list="\n".join(f"{number}. {row}" for number, row in enumerate(rows, 1)),
        table="name, place, number\n" + "\n".join(rows),
        text=" ".join(f"{rng.choice(NAMES)} lives in {rng.choice(PLACES)} nad is happy." for _ in range(12)),
        count=rng.randint(10, 30),
    )


def synthetic(rng: Random, tokens: int) -> str:
    """Words without sense that make about so many tokens."""
    words = [word for subject in SUBJECTS for word in subject.split()]
    return " ".join(rng.choices(words, k=max(1, round(tokens * WORDS_PER_TOKEN))))


def prompt_sets(wanted: str, prefix_tokens: int, question_tokens: int) -> tuple[PromptSet, ...]:
    """The sets that a command line names: `built-in`, `shared-prefix` or a file. Raises PromptsError."""
    if wanted == BUILT_IN:
        return built_in()
    if wanted == SHARED_PREFIX:
        return shared_prefix(prefix_tokens, question_tokens)
    return from_file(FilePath(wanted))
