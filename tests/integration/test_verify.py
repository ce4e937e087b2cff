"""`spec-router verify` against simulated engines."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from router.cli.main import app
from router.cli.targets import KEY_VARIABLE
from router.sim.server import SimulatedPair
from router.verify.prompts import BUILT_IN
from tests.cases.kit.engine import FakeEngine
from tests.cases.kit.scripts import replying, silent

SECRET = "sk-engine-secret"


def pair(**options: object) -> SimulatedPair:
    """Two quick engines."""
    return SimulatedPair(time_scale=100, health_seconds=0.05, **options)  # type: ignore[arg-type]


async def verify(*arguments: str, key: str | None = None) -> Result:
    """Run the command; it has an event loop of its own, the engines live on the test's."""
    return await asyncio.to_thread(
        CliRunner().invoke, app, ["verify", "--max-tokens", "24", *arguments], env={KEY_VARIABLE: key}
    )


def urls(engines: SimulatedPair) -> tuple[str, ...]:
    return "--speculative", engines.speculative_url, "--baseline", engines.baseline_url


def two_prompts(folder: Path) -> tuple[str, str]:
    file = folder / "prompts.txt"
    file.write_text("The capital of France is\n\nOnce upon a time\n")
    return "--prompts", str(file)


async def test_engines_that_agree_are_safe() -> None:
    async with pair() as engines:
        result = await verify(*urls(engines))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[-1] == f"Safe: all {len(BUILT_IN)} greedy answers are identical."
    assert lines[1].startswith("The capital of France is")
    assert lines[1].rstrip().endswith("identical")


async def test_where_they_part_and_how_much_the_baseline_was_in_doubt(tmp_path: Path) -> None:
    async with pair(diverge_at=5, diverge_gap=0.5, natural_length=None) as engines:
        result = await verify(*urls(engines), *two_prompts(tmp_path), "--json")
        near = await verify(*urls(engines), *two_prompts(tmp_path), "--gap", "0.5")
        far = await verify(*urls(engines), *two_prompts(tmp_path))
    assert result.exit_code == 1, result.output
    found = json.loads(result.stdout)
    assert (found["safe"], found["prompts"], found["identical"], found["gap_limit"]) == (False, 2, 0, 0.1)
    assert [engine["speculative"] for engine in found["engines"].values()] == [True, False]
    for row in found["rows"]:
        parted = row["divergence"]
        assert (row["same_tokens"], parted["index"], parted["gap"]) == (5, 5, 0.5)
        assert (parted["gap_is_lower_bound"], parted["near_tie"]) == (False, False)
        assert parted["speculative"]["token"] != parted["baseline"]["token"]
    assert far.exit_code == 1
    assert far.stdout.splitlines()[-1].startswith("Unsafe: 2 of 2 greedy answers part")
    assert far.stdout.count("DIFFERENT") == 2
    assert near.exit_code == 0
    assert near.stdout.splitlines()[-1].startswith("Safe: 0 of 2 greedy answers are identical, and 2 part at")
    assert near.stdout.count("near-tie") == 3


async def test_engines_and_keys_come_from_the_configuration(tmp_path: Path) -> None:
    async with pair(api_key=SECRET) as engines:
        config = tmp_path / "config.yaml"
        named = {
            path: {"url": url, "api_key": SECRET}
            for path, url in (("speculative", engines.speculative_url), ("baseline", engines.baseline_url))
        }
        config.write_text(yaml.safe_dump({"pairs": [named]}))
        result = await verify("-c", str(config), *two_prompts(tmp_path), "--json")
        assert result.exit_code == 0, result.output
        keyed = await verify(*urls(engines), *two_prompts(tmp_path), key=SECRET)
        assert keyed.exit_code == 0, keyed.output
        keyless = await verify(*urls(engines), *two_prompts(tmp_path))
        assert keyless.exit_code == 4
        assert keyless.stderr == "the speculative engine: status 401\n"
    for each in (result, keyed, keyless):
        assert SECRET not in each.output


async def test_two_engines_of_one_kind_are_compared_and_named(tmp_path: Path) -> None:
    async with pair() as engines:
        same = ("--speculative", engines.baseline_url, "--baseline", engines.baseline_url)
        result = await verify(*same, *two_prompts(tmp_path))
    assert result.exit_code == 0
    assert "note: the speculative engine runs no speculative algorithm" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--speculative", "http://a:1"), "--baseline is missing"),
        (("--speculative", "ftp://a:1", "--baseline", "http://a:1"), "--speculative is not a usable URL"),
        (("-c", "nowhere.yaml"), "nowhere.yaml: cannot be read"),
        (
            ("--speculative", "http://a:1", "--baseline", "http://b:1", "--prompts", "nowhere"),
            "nowhere: cannot",
        ),
    ],
)
async def test_wrong_input(arguments: tuple[str, ...], says: str) -> None:
    result = await verify(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr


async def test_a_configuration_with_one_engine_has_nothing_to_compare(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("pairs: [{placement: single, speculative: {url: 'http://127.0.0.1:1'}}]")
    result = await verify("-c", str(config))
    assert (result.exit_code, "nothing to compare" in result.stderr) == (2, True)


async def test_a_prompt_that_an_engine_refuses_is_named(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("short\n" + "word " * 500 + "\n")
    async with pair(context_length=256) as engines:
        result = await verify(*urls(engines), "--prompts", str(file))
    assert result.exit_code == 2
    assert result.stderr == "prompt 2: the speculative engine refuses it (400)\n"


async def test_engines_that_do_not_answer(a: FakeEngine, b: FakeEngine, unused_tcp_port: int) -> None:
    nobody = f"http://127.0.0.1:{unused_tcp_port}"
    for script, why in (
        (replying("500 Internal Server Error"), "status 500"),
        (replying("200 OK", b"[]"), "not an answer of SGLang's /generate"),
        (replying("200 OK", b"{"), "not an answer of SGLang's /generate"),
        (replying("200 OK", b'{"output_ids": ["x"], "meta_info": {}}'), "not an answer"),
        (silent, "no answer within 0.3 s"),
    ):
        a.script = script
        result = await verify("--speculative", a.url, "--baseline", b.url, "--timeout", "0.3")
        assert result.exit_code == 4
        assert result.stderr.startswith(f"the speculative engine: {why}")
    result = await verify("--speculative", nobody, "--baseline", b.url)
    assert (result.exit_code, result.stderr) == (4, "the speculative engine: ConnectError\n")
