"""Profiles: the shipped ones, an operator's own, and wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.core.words import Placement
from router.launch.files import LaunchFileError
from router.launch.plan.profile import profile_problem
from router.launch.profile_files import Profiles

SHIPPED = Profiles()


def own(folder: Path, kind: str, name: str, text: str) -> Profiles:
    (folder / kind).mkdir(exist_ok=True)
    (folder / kind / f"{name}.yaml").write_text(text)
    return Profiles(folder)


def test_the_shipped_names() -> None:
    assert SHIPPED.speculation_names() == ["adaptive", "baseline", "eagle3-chain", "eagle3-tree", "ngram"]
    assert SHIPPED.hardware_names() == ["blackwell-pcie", "generic", "hopper"]


@pytest.mark.parametrize("name", SHIPPED.speculation_names())
def test_shipped_profiles_are_right_and_explained(name: str) -> None:
    profile = SHIPPED.speculation(name)
    assert profile_problem(profile) is None
    assert profile.description


def test_shipped_shapes() -> None:
    chain, tree = SHIPPED.speculation("eagle3-chain"), SHIPPED.speculation("eagle3-tree")
    assert (chain.steps, chain.topk, chain.draft_tokens) == (3, 1, 4)
    assert tree.topk is not None
    assert tree.topk > 1
    assert tree.draft_tokens == 16
    assert any("greedy output" in each for each in SHIPPED.speculation("ngram").warnings)
    adaptive = SHIPPED.speculation("adaptive")
    assert adaptive.tiers[-1].steps == (0,)
    assert Placement.SHARED not in adaptive.placements
    assert (chain.graph_sets, adaptive.graph_sets) == (1, 2)


def test_hardware_profiles_extend_the_generic_one() -> None:
    generic, sm120 = SHIPPED.hardware("generic"), SHIPPED.hardware("blackwell-pcie")
    assert set(generic.refused) < set(sm120.refused)
    assert (sm120.attention_mla, sm120.attention_gqa) == ("triton", "flashinfer")
    assert all(each.reason for each in sm120.refused)


@pytest.mark.parametrize(
    ("gpus", "name"),
    [
        (["NVIDIA RTX PRO 6000 Blackwell Server Edition"] * 8, "blackwell-pcie"),
        (["NVIDIA H200"], "hopper"),
        (["NVIDIA H200", "NVIDIA A100"], "generic"),
        (["NVIDIA B200"], "generic"),
        ([], "generic"),
    ],
)
def test_auto_goes_by_the_gpus_name(gpus: list[str], name: str) -> None:
    assert SHIPPED.hardware("auto", gpus).name == name


def test_an_own_profile_stands_beside_the_shipped_and_wins(tmp_path: Path) -> None:
    text = "algorithm: EAGLE3\ndraft_model: true\nsteps: 5\ntopk: 1\ndraft_tokens: 6\n"
    profiles = own(tmp_path, "speculation", "eagle3-chain", text)
    assert profiles.speculation("eagle3-chain").steps == 5
    assert profiles.speculation("eagle3-tree") == SHIPPED.speculation("eagle3-tree")
    profiles = own(tmp_path, "hardware", "mine", "extends: hopper\nenv: {A: b}\ngpus: [B200]\n")
    assert profiles.hardware("auto", ["NVIDIA B200"]).env == {"A": "b"}
    assert set(SHIPPED.hardware("hopper").refused) == set(profiles.hardware("mine").refused)


WRONG = [
    ("steps: {", "is not YAML"),
    ("- a", "is not a mapping"),
    ("stepz: 3", "stepz: is an unknown key; allowed: description, algorithm,"),
    ("algorithm: EAGLE3\nsteps: x", "steps: 'x' is not allowed; allowed: a whole number from 1"),
    ("algorithm: EAGLE3\nsteps: true", "steps: True is not allowed"),
    ("algorithm: EAGLE3\nsteps: 3", "steps, topk and draft_tokens are needed together"),
    (
        "algorithm: EAGLE3\nsteps: 3\ntopk: 1\ndraft_tokens: 8",
        "topk 1 with 3 steps has 4 draft tokens, not 8",
    ),
    ("steps: 3", "draft settings without an algorithm"),
    ("placements: [both]", "placements: ['both'] is not allowed; allowed: shared, separate, single"),
    ("args: --a", "args: '--a' is not allowed; allowed: a list of texts"),
]
TIERS = "algorithm: EAGLE3\nsteps: 3\ntopk: {topk}\ndraft_tokens: {tokens}\ntiers: {tiers}"
WRONG_TIERS = [
    (1, 4, "{1: [1, 3, 7]}", "tiers reach 7 steps = 8 draft tokens, but steps is 3: SGLang 0.5.16 sizes its"),
    (1, 4, "{1: [1]}", "tiers reach 1 steps"),
    (1, 4, "{8: [3]}", "tiers start at batch size 1 and rise"),
    (4, 16, "{1: [3]}", "tiers work with EAGLE or EAGLE3 and topk 1 only"),
    (1, 4, "{1: 3}", "allowed: a mapping of batch size to a list of steps"),
    (1, 4, "{1: []}", "allowed: a mapping of batch size to a list of steps"),
    (1, 4, "[1, 3]", "allowed: a mapping of batch size to a list of steps"),
]


@pytest.mark.parametrize(
    ("text", "said"),
    [*WRONG, *((TIERS.format(topk=k, tokens=n, tiers=t), said) for k, n, t, said in WRONG_TIERS)],
)
def test_a_wrong_profile_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(LaunchFileError) as caught:
        own(tmp_path, "speculation", "mine", text).speculation("mine")
    assert str(caught.value).startswith("speculation profile mine: ")
    assert said in str(caught.value)


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    profiles = own(tmp_path, "speculation", "mine", "")
    with pytest.raises(
        LaunchFileError, match="allowed: adaptive, baseline, eagle3-chain, eagle3-tree, mine, ngram"
    ):
        profiles.speculation("eagle")


def test_profiles_that_extend_each_other_end(tmp_path: Path) -> None:
    profiles = own(tmp_path, "hardware", "a", "extends: a")
    with pytest.raises(LaunchFileError, match="does not extend this one"):
        profiles.hardware("a")
