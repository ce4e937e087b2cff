"""What is wrong with how two engines are wired."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.core.arguments import flags_hash
from router.core.calibration import Key
from router.core.identity import (
    Fault,
    Identity,
    KeyRefused,
    Told,
    Verdict,
    judge,
    key_of,
    key_of_engine,
)
from router.core.words import Path, Placement

SPECULATIVE, BASELINE = Path
FAST = Identity(True, False, "m", "0.5.23", 4096, 16384, 4090, 48)
PLAIN = replace(FAST, speculative=False, max_running_requests=256)


def verdict(
    fast: Told | None, plain: Told | None, *, high: int | None = 8, placement: Placement = Placement.SHARED
) -> Verdict:
    told = {path: one for path, one in ((SPECULATIVE, fast), (BASELINE, plain)) if one is not None}
    return judge(placement, told, high)


def faults(found: Verdict) -> list[Fault]:
    return [problem.fault for problem in found.problems]


@pytest.mark.parametrize("placement", [Placement.SHARED, Placement.SEPARATE])
@pytest.mark.parametrize(
    ("fast", "plain"),
    [
        (FAST, PLAIN),
        (FAST, None),
        (None, PLAIN),
        (None, None),
        (Identity(version="0.5.16"), Identity()),
        (replace(FAST, model=None), PLAIN),
        (FAST, replace(PLAIN, context_length=None)),
        (replace(FAST, adaptive=True, version="0.5.16"), PLAIN),
    ],
)
def test_a_pair_that_is_wired_right_or_says_too_little(
    fast: Identity | None, plain: Identity | None, placement: Placement
) -> None:
    assert verdict(fast, plain, placement=placement) == Verdict()


def test_swapped_engines_are_crossed_and_only_the_plain_one_is_used() -> None:
    found = verdict(PLAIN, FAST)
    assert faults(found) == [Fault.SWAPPED]
    assert (found.excluded, found.crossed) == ({SPECULATIVE}, True)
    assert "swapped" in found.problems[0].text


@pytest.mark.parametrize(
    ("both", "out", "says"),
    [(FAST, BASELINE, "both engines run a"), (PLAIN, SPECULATIVE, "neither engine runs a")],
)
def test_of_two_engines_of_one_kind_the_one_that_is_not_what_its_path_says_is_out(
    both: Identity, out: Path, says: str
) -> None:
    found = verdict(both, both)
    assert faults(found) == [Fault.SAME_KIND]
    assert (found.excluded, found.crossed) == ({out}, False)
    assert found.problems[0].text == f"{says} speculative algorithm; only the {out.other} path is used"


@pytest.mark.parametrize(("fast", "plain", "out"), [(PLAIN, None, SPECULATIVE), (None, FAST, BASELINE)])
def test_a_wrong_engine_is_out_before_the_other_has_said_anything(
    fast: Identity | None, plain: Identity | None, out: Path
) -> None:
    found = verdict(fast, plain)
    assert faults(found) == [Fault.WRONG_KIND]
    assert found.excluded == {out}


def test_with_two_models_only_the_baseline_serves() -> None:
    found = verdict(FAST, replace(PLAIN, model="n", context_length=1))
    assert faults(found) == [Fault.MODELS_DIFFER]
    assert found.excluded == {SPECULATIVE}
    assert "'m' and 'n'" in found.problems[0].text


def test_different_contexts_are_told_and_both_engines_used() -> None:
    found = verdict(FAST, replace(PLAIN, context_length=8192))
    assert faults(found) == [Fault.CONTEXTS_DIFFER]
    assert found.excluded == set()


@pytest.mark.parametrize("path", Path)
def test_an_engine_that_refuses_our_key_is_out_and_one_that_wants_one_is_not(path: Path) -> None:
    told = {SPECULATIVE: FAST, BASELINE: PLAIN}
    found = judge(Placement.SHARED, {**told, path: KeyRefused(shown=True)}, 8)
    assert (faults(found), found.excluded) == ([Fault.KEY_REFUSED], {path})
    found = judge(Placement.SHARED, {**told, path: KeyRefused(shown=False)}, 8)
    assert (faults(found), found.excluded) == ([Fault.KEY_MISSING], set())


@pytest.mark.parametrize(("high", "wrong"), [(48, False), (49, True), (None, False)])
def test_the_watermark_must_be_within_what_the_speculative_engine_runs(high: int | None, wrong: bool) -> None:
    assert (Fault.HIGH_ABOVE_LIMIT in faults(verdict(FAST, PLAIN, high=high))) is wrong
    assert (Fault.HIGH_ABOVE_LIMIT in faults(verdict(PLAIN, FAST, high=high))) is wrong, "crossed or not"


@pytest.mark.parametrize("one", [FAST, PLAIN])
def test_a_single_engine_has_no_wrong_kind(one: Identity) -> None:
    assert verdict(one, None, high=None, placement=Placement.SINGLE) == Verdict()
    found = verdict(KeyRefused(shown=True), None, placement=Placement.SINGLE)
    assert found.excluded == {SPECULATIVE}


DRAFTING = replace(FAST, draft="m-eagle3", arguments={"tp_size": 8, "speculative_num_steps": 3})
DECODING = replace(PLAIN, arguments={"tp_size": 8})


def test_the_key_of_a_pair_says_what_both_are() -> None:
    arguments = {SPECULATIVE: DRAFTING.arguments, BASELINE: DECODING.arguments}
    found = key_of(DRAFTING, DECODING, Placement.SHARED)
    assert found == Key("m", "m-eagle3", "0.5.23", flags_hash(arguments), Placement.SHARED, arguments)
    assert found.flags is not None


def test_what_the_engines_of_a_pair_do_not_agree_on_or_tell_is_not_known() -> None:
    """A key with one engine's version would be refused for the other as soon as it is used."""
    other = replace(PLAIN, model="n", version="0.5.16")
    assert key_of(DRAFTING, other, Placement.SEPARATE) == Key(
        None,
        "m-eagle3",
        None,
        None,
        Placement.SEPARATE,
        {SPECULATIVE: DRAFTING.arguments},
    )


def test_one_engine_tells_its_part_of_the_key() -> None:
    assert key_of_engine(SPECULATIVE, DRAFTING) == Key(
        "m", "m-eagle3", "0.5.23", arguments={SPECULATIVE: DRAFTING.arguments}
    )
    assert key_of_engine(BASELINE, replace(DRAFTING, arguments={})) == Key("m", None, "0.5.23")
