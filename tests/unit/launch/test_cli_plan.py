"""The command: what it prints and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from router.cli.main import app
from router.cli.plan_view import PlanView
from router.core.words import Path as RoutePath
from router.launch.plan import Plan, Ports, engine_command
from tests.unit.launch import models
from tests.unit.launch.models import write_checkpoint
from tests.unit.launch.planned import planned, shape

PAIR = "pairs: [{speculative: {url: 'http://127.0.0.1:30001'}, baseline: {url: 'http://127.0.0.1:30002'}}]\n"


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, str]:
    return {
        "llama": str(write_checkpoint(tmp_path / "llama", models.LLAMA_70B, models.LLAMA_70B_BYTES)),
        "eagle": str(write_checkpoint(tmp_path / "eagle", models.LLAMA_EAGLE3, models.LLAMA_EAGLE3_BYTES)),
        "kimi": str(write_checkpoint(tmp_path / "kimi", models.KIMI_K25, models.KIMI_K25_BYTES)),
        "mla": str(write_checkpoint(tmp_path / "mla", models.KIMI_EAGLE3_MLA, models.KIMI_EAGLE3_BYTES)),
        "python": str(tmp_path / "no-python"),
    }


def run(*args: str) -> Any:
    return CliRunner().invoke(app, ["plan", *args])


def config(tmp_path: Path, text: str, pair: str = PAIR) -> str:
    path = tmp_path / "c.yaml"
    path.write_text(pair + text)
    return str(path)


def test_a_plan_from_flags(folders: dict[str, str]) -> None:
    found = run("--model", folders["llama"], "--draft", folders["eagle"], "--tp", "8", "--gpu", "8x96GiB")
    assert found.exit_code == 0, found.output
    assert "llama, draft eagle: fits, placement shared, hardware blackwell-pcie" in found.stdout
    assert re.search(r"^  weights +17\.08 +17\.08$", found.stdout, re.MULTILINE)
    assert re.search(r"^  KV tokens +222720 +902400$", found.stdout, re.MULTILINE)
    assert re.search(r"^  0-7 .*95\.59 +95\.59 +1\.\d\d", found.stdout, re.MULTILINE)
    assert re.search(r"^  32768 +6 +27$", found.stdout, re.MULTILINE)
    assert "1. start the speculative engine\n" in found.stdout
    assert "--max-total-tokens 902400" in found.stdout
    assert "\x1b" not in found.stdout


def test_a_plan_as_json(folders: dict[str, str]) -> None:
    args = (
        "--model",
        folders["llama"],
        "--draft",
        folders["eagle"],
        "--tp",
        "8",
        "--gpu",
        "8x96GiB",
        "--json",
    )
    found = json.loads(run(*args, "--check-flags", "--sglang-python", folders["python"]).stdout)
    assert (found["fits"], found["placement"]) == (True, "shared")
    fast, plain = found["engines"]
    assert (fast["tokens"], plain["tokens"]) == (222_720, 902_400)
    assert (fast["fraction_is_final"], plain["fraction_is_final"]) == (True, False)
    assert fast["memory"]["weights"] == 18_343_963_689
    assert sum(size for name, size in fast["memory"].items() if name != "total") == fast["memory"]["total"]
    assert "--mem-fraction-static" in plain["argv"]
    assert fast["flags"]["problems"] == []
    assert fast["flags"]["checked_by"].startswith("the shipped list of SGLang 0.5.23")


def test_kimi_is_refused_with_the_sum_and_what_would_fit(folders: dict[str, str]) -> None:
    args = ("--model", folders["kimi"], "--draft", folders["mla"], "--tp", "8", "--gpu", "8x96GiB")
    found = run(*args)
    assert found.exit_code == 3
    assert "two copies of 72.0 GiB each" in found.stdout
    assert "recommended: one engine with --speculative-adaptive; set placement: single" in found.stdout
    as_json = json.loads(run(*args, "--json").stdout)
    assert (as_json["fits"], as_json["kind"]) == (False, "memory")
    assert [option["recommended"] for option in as_json["options"]] == [False, False, False, True]
    taken = run(*args, "--placement", "single", "--profile", "adaptive")
    assert taken.exit_code == 0
    assert "from batch size 8 on: steps 0 (draft tokens 1), 3 (draft tokens 4)" in taken.stdout


def test_a_flag_that_the_release_does_not_know_is_refused(tmp_path: Path, folders: dict[str, str]) -> None:
    launch = (
        f"launch: {{model: '{folders['llama']}', draft: '{folders['eagle']}', tp: 8, gpus: 8x96GiB, "
        "engines: {baseline: {args: [--gated-launch-port, 9]}}, "
        f"sglang: {{python: '{folders['python']}'}}}}\n"
    )
    file = config(tmp_path, launch)
    assert run("-c", file, "--check-flags").exit_code == 0
    found = run("-c", file, "--check-flags", "--sglang-version", "0.5.16")
    assert found.exit_code == 3
    assert (
        "baseline: unknown option: --gated-launch-port, says the shipped list of SGLang 0.5.16"
        in found.stdout
    )


def test_a_plan_from_a_file_which_flags_change(tmp_path: Path, folders: dict[str, str]) -> None:
    launch = f"launch: {{model: '{folders['llama']}', draft: '{folders['eagle']}', tp: 8}}\n"
    found = run("-c", config(tmp_path, launch), "--gpu", "8xh200", "--baseline-requests", "64", "--json")
    assert found.exit_code == 0, found.output
    engines = json.loads(found.stdout)["engines"]
    assert [engine["max_running_requests"] for engine in engines] == [32, 64]


@pytest.mark.parametrize(("high", "code"), [(32, 0), (33, 3)])
def test_the_policy_fits_the_engine(tmp_path: Path, folders: dict[str, str], high: int, code: int) -> None:
    launch = f"launch: {{model: '{folders['llama']}', draft: '{folders['eagle']}', tp: 8, gpus: 8x96GiB}}\n"
    found = run("-c", config(tmp_path, f"policy: {{high: {high}}}\n{launch}"))
    assert found.exit_code == code
    assert ("policy.high 33 is above" in found.stdout) == (code == 3)


def test_the_placement_is_the_pairs(tmp_path: Path, folders: dict[str, str]) -> None:
    pair = "pairs: [{placement: single, baseline: {url: 'http://127.0.0.1:30002'}}]\n"
    file = config(tmp_path, f"launch: {{model: '{folders['llama']}', tp: 8, gpus: 8x96GiB}}\n", pair)
    (engine,) = json.loads(run("-c", file, "--json").stdout)["engines"]
    assert (engine["path"], engine["profile"], engine["max_running_requests"]) == (
        "baseline",
        "baseline",
        128,
    )
    assert engine["argv"][engine["argv"].index("--port") + 1] == "30002"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "launch.model: is missing; allowed: -c FILE, or --model\nlaunch.tp: is missing"),
        (("--model", "/nowhere", "--tp", "8", "--gpu", "8x96GiB"), "/nowhere/config.json: cannot be read"),
        (("--model", "/m", "--tp", "0"), "launch.tp: is out of range; allowed: a whole number from 1 to 64"),
        (
            ("--model", "/m", "--tp", "8", "--gpu", "8"),
            "launch.gpus: does not say which GPUs; allowed: auto, COUNT",
        ),
        (("--model", "/m", "--tp", "8", "--kv-share", "1"), "launch.kv_share: is out of range"),
        (
            ("--model", "/m", "--tp", "8", "--profile", "eagle"),
            "speculation profile eagle: there is none; allowed: ",
        ),
        (("-c", "/nowhere.yaml"), "/nowhere.yaml: cannot be read"),
    ],
)
def test_wrong_input_is_told_on_stderr(args: tuple[str, ...], said: str) -> None:
    found = run(*args)
    assert found.exit_code == 2
    assert said in found.stderr
    assert found.stdout == ""


def test_a_file_without_the_section(tmp_path: Path) -> None:
    found = run("-c", config(tmp_path, ""))
    assert found.exit_code == 2
    assert "launch: is missing; allowed: the section launch, or --model and --tp" in found.stderr


def test_tables_on_a_terminal(tmp_path: Path) -> None:
    target = shape(tmp_path, "llama", models.LLAMA_70B, models.LLAMA_70B_BYTES)
    plan = planned(target, None, "8x96GiB", profile="ngram")
    assert isinstance(plan, Plan)
    console = Console(force_terminal=True, width=100, record=True, file=(tmp_path / "out").open("w"))
    with console.file:
        commands = {path: engine_command(plan, path, None, Ports(1, 2), "python3") for path in RoutePath}
        PlanView(console).plan(plan, commands, {})
    text = console.export_text()
    assert "┃" in text
    assert re.search(r"│ weights +│ +17\.08 │ +17\.08 │", text)
