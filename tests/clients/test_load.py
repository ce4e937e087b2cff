"""SGLang's own load generator: every request answered, every token delivered, as without the router."""

from __future__ import annotations

import json
from pathlib import Path as File
from typing import Any

import pytest

from router.core.words import Path
from tests.clients.stage import Stage, python, run

PROMPTS, TOKENS, TOGETHER = 40, 64, 4
EXACT = ("completed", "total_input_tokens", "total_output_tokens")


@pytest.mark.parametrize("path", list(Path), ids=str)
def test_a_load_generator(simulated: Stage, path: Path, tmp_path: File) -> None:
    (tmp_path / "words.txt").write_text((File(__file__).parent / "stage.py").read_text())
    before = simulated.metrics(path).sum("requests_total", outcome="ok")
    direct, routed = (generate(simulated, url, tmp_path) for url in simulated.ways(path))
    assert [direct[name] for name in EXACT] == [routed[name] for name in EXACT]
    assert routed["completed"] == PROMPTS
    assert routed["total_output_tokens"] == PROMPTS * TOKENS
    # One more is the generator's own warm-up.
    assert simulated.metrics(path).sum("requests_total", outcome="ok") - before == PROMPTS + 1


def generate(stage: Stage, url: str, folder: File) -> dict[str, Any]:
    """The generator's result line."""
    result = folder / "result.jsonl"
    options = {
        "backend": "sglang-oai-chat",
        "base-url": url,
        "model": stage.model,
        "tokenizer": folder,
        "dataset-name": "random-ids",
        "num-prompts": PROMPTS,
        "random-input-len": 32,
        "random-output-len": TOKENS,
        "random-range-ratio": 1,
        "max-concurrency": TOGETHER,
        "worker-threads": 1,
        "output-file": result,
    }
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    run(python("load", str(folder), *arguments, "--disable-tqdm"))
    found: dict[str, Any] = json.loads(result.read_text().splitlines()[-1])
    return found
