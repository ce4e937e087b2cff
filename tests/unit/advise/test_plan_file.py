"""What `spec-router plan --json` prints is what `advise --plan` reckons with."""

from __future__ import annotations

import json
from pathlib import Path as FilePath
from typing import Any

import pytest
from typer.testing import CliRunner

from router.advise.means import Means
from router.advise.plan_file import PlanFileError, read_plan
from router.cli.main import app
from tests.unit.launch import models
from tests.unit.launch.models import write_checkpoint

LLAMA = (models.LLAMA_70B, models.LLAMA_70B_BYTES, models.LLAMA_EAGLE3, models.LLAMA_EAGLE3_BYTES)
KIMI = (models.KIMI_K25, models.KIMI_K25_BYTES, models.KIMI_EAGLE3_MLA, models.KIMI_EAGLE3_BYTES)


def planned(folder: FilePath, model: Any, gpus: str, *more: str, code: int = 0) -> FilePath:
    """A file with what the command printed, and its exit status checked."""
    target = write_checkpoint(folder / "target", model[0], model[1])
    draft = write_checkpoint(folder / "draft", model[2], model[3])
    args = ["plan", "--model", str(target), "--draft", str(draft), "--tp", "8", "--gpu", gpus, "--json"]
    found = CliRunner().invoke(app, [*args, *more])
    assert found.exit_code == code, found.output
    file = folder / "plan.json"
    file.write_text(found.stdout)
    return file


def advised(*args: str) -> dict[str, Any]:
    found = CliRunner().invoke(app, ["advise", *args, "--json"])
    assert found.exit_code == 0, found.output
    document: dict[str, Any] = json.loads(found.stdout)
    return document


def refused(document: dict[str, Any]) -> dict[str, str]:
    return {each["layout"]: each["why_not"] for each in document["options"] if each["why_not"]}


def test_a_plan_that_fits_tells_all_four(tmp_path: FilePath) -> None:
    """The pools are those of `test_a_plan_from_flags`; one engine alone has what both had, and more."""
    means = read_plan(planned(tmp_path, LLAMA, "8x96GiB"))
    assert (means.fits_twice, means.own_gpus, means.adaptive) == (True, None, True)
    assert (means.kv_tokens_speculative, means.kv_tokens) == (222_720, 902_400)
    assert means.kv_tokens_alone is not None
    # The weights of the other engine and its reserves: 21 GiB and more per GPU, at 40 KiB a token.
    assert means.kv_tokens_alone > 222_720 + 902_400 + 21 * 2**30 // 40960


def test_the_pool_of_an_engine_alone_is_that_of_its_own_plan(tmp_path: FilePath) -> None:
    alone = json.loads(
        planned(tmp_path, LLAMA, "8x96GiB", "--placement", "single", "--profile", "baseline").read_text()
    )
    means = read_plan(planned(tmp_path, LLAMA, "8x96GiB"))
    assert means.kv_tokens_alone == alone["engines"][0]["tokens"]


def test_a_refused_plan_says_that_two_do_not_fit_and_why(tmp_path: FilePath) -> None:
    """Kimi-K2.5 needs 72 GiB per GPU of 95.6: two do not fit, one adaptive engine does."""
    file = planned(tmp_path, KIMI, "8x96GiB", code=3)
    means = read_plan(file)
    assert (means.fits_twice, means.adaptive, means.kv_tokens) == (False, True, None)
    document = advised("strong", "--plan", str(file))
    assert "two copies of 72.0 GiB each" in refused(document)["two engines shared"]
    assert set(refused(document)) == {"two engines shared", "two pools"}
    assert not any("fit on the GPUs is assumed" in note for note in document["notes"])


def test_an_engine_that_does_not_fit_even_alone_cannot_adapt(tmp_path: FilePath) -> None:
    means = read_plan(planned(tmp_path, KIMI, "8x80GiB", code=3))
    assert (means.fits_twice, means.adaptive) == (False, False)


def test_engines_on_gpus_of_their_own(tmp_path: FilePath) -> None:
    """Such a plan says that there are two sets, and nothing of two engines on one."""
    means = read_plan(planned(tmp_path, LLAMA, "16x96GiB", "--placement", "separate"))
    assert (means.fits_twice, means.own_gpus) == (None, True)
    too_few = read_plan(planned(tmp_path, LLAMA, "8x96GiB", "--placement", "separate", code=3))
    assert (too_few.fits_twice, too_few.own_gpus) == (None, False)


def test_one_engine_says_nothing_of_two(tmp_path: FilePath) -> None:
    means = read_plan(planned(tmp_path, LLAMA, "8x96GiB", "--placement", "single", "--profile", "adaptive"))
    assert means.fits_twice is None
    assert means.kv_tokens_alone is not None


def test_flags_win_over_the_plan(tmp_path: FilePath) -> None:
    file = str(planned(tmp_path, KIMI, "8x96GiB", code=3))
    taken = refused(advised("strong", "--plan", file))
    assert set(taken) == {"two engines shared", "two pools"}
    other = refused(advised("strong", "--plan", file, "--fits-twice", "--no-adaptive", "--own-gpus"))
    assert set(other) == {"one adaptive engine"}


def test_a_number_for_the_pools_is_for_both_engines(tmp_path: FilePath) -> None:
    """The speculative pool of the plan holds 27 requests of 8000 tokens; the flag leaves room for none."""
    file = str(planned(tmp_path, LLAMA, "8x96GiB"))
    long = ("strong", "--plan", file, "--request-tokens", "8000")
    assert "two engines shared" not in refused(advised(*long))
    assert "not one long request" in refused(advised(*long, "--kv-tokens", "7000"))["two engines shared"]


def test_each_pool_bounds_its_own_engine(tmp_path: FilePath) -> None:
    """Requests of 30,000 tokens: 7 on the speculative engine, 30 on the baseline.

    At 30 in flight the baseline serves and holds them all; with the smaller pool for both, 7 would share it.
    """
    file = planned(tmp_path, LLAMA, "8x96GiB")
    assert read_plan(file).kv_tokens == 902_400
    trace = tmp_path / "busy.csv"
    trace.write_text("".join(f"{at / 50},28000,2000\n" for at in range(60)))
    args = ("strong", "--traffic", str(trace), "--plan", str(file))
    assert shared(advised(*args)) < 0.7 * shared(advised(*args, "--kv-tokens", "222720"))


def shared(document: dict[str, Any]) -> float:
    (cost,) = (each["seconds_per_token"] for each in document["options"] if "shared" in each["layout"])
    assert isinstance(cost, float)
    return cost


def test_the_long_request_is_the_traffic_s_where_it_is_not_said(tmp_path: FilePath) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("".join(f"{at},{100 * at},100\n" for at in range(101)))
    file = str(planned(tmp_path, LLAMA, "8x96GiB"))
    # The p95 is 9,600 tokens.
    for tokens, fits in (("9601", True), ("9599", False)):
        found = advised("strong", "--traffic", str(trace), "--plan", file, "--kv-tokens", tokens)
        assert ("two engines shared" not in refused(found)) is fits
        assert "KV memory was not looked at" not in found["notes"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "(file): "),
        ("{", "(file): "),
        ("[]", "(file): [] is not allowed; allowed: the output of `spec-router plan --json`"),
        ("{}", "fits: None is not allowed; allowed: true, false"),
        (
            '{"fits": true, "placement": "both"}',
            "placement: 'both' is not allowed; allowed: shared, separate",
        ),
        ('{"fits": true, "placement": "shared"}', "alone: None is not allowed; allowed: a list"),
        (
            '{"fits": true, "placement": "shared", "alone": [], '
            '"engines": [{"path": "baseline", "tokens": 0}]}',
            "engines.baseline.tokens: 0 is not allowed; allowed: a whole number from 1, or null",
        ),
        (
            '{"fits": true, "placement": "shared", "alone": [1]}',
            "alone[0]: 1 is not allowed; allowed: a mapping",
        ),
        (
            '{"fits": false, "placement": "shared", "alone": [], "kind": "limits"}',
            "kind: 'limits' is not allowed; allowed: a plan that fits, or one refused for memory, uneven,",
        ),
    ],
)
def test_what_is_no_plan_is_one_clear_error(tmp_path: FilePath, text: str | None, said: str) -> None:
    file = tmp_path / "plan.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(PlanFileError):
        read_plan(file)
    found = CliRunner().invoke(app, ["advise", "strong", "--plan", str(file)])
    assert found.exit_code == 2
    assert found.stderr.startswith(f"{file}: {said}")
    assert "allowed: " in found.stderr


def test_a_file_without_end_is_not_read() -> None:
    with pytest.raises(PlanFileError, match="at most 4 MiB"):
        read_plan(FilePath("/dev/zero"))


def test_what_is_known_wins_over_what_is_not() -> None:
    known = Means(fits_twice=False, own_gpus=False)
    assert known.over(Means(True, True, True, 1, 2, 3)) == Means(False, False, True, 1, 2, 3)
