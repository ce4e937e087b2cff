"""Where spans go: what is taken, what is refused, and what happens without the extra."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from router.config import Config
from tests.unit.config.conftest import PAIR

WITHOUT = """
import sys
from importlib.abc import MetaPathFinder
class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.startswith({!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}")
sys.meta_path.insert(0, Missing())
from router.cli import main
main()
"""


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("null", None),
        ("''", None),
        ("${NOT_SET:-}", None),
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://otel.example/ingest/traces", "https://otel.example/ingest/traces"),
    ],
)
def test_endpoints(load: Callable[..., Config], written: str, kept: str | None) -> None:
    assert load(f"tracing:\n  endpoint: {written}\n").tracing.endpoint == kept


@pytest.mark.parametrize(("written", "kept"), [("0", 0.0), ("1", 1.0), ("0.25", 0.25)])
def test_shares(load: Callable[..., Config], written: str, kept: float) -> None:
    assert load(f"tracing: {{sample: {written}}}\n").tracing.sample == kept


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("endpoint: collector:4318", "tracing.endpoint: is not a URL"),
        ("endpoint: 'http://'", "tracing.endpoint: is not a URL"),
        ("endpoint: 'http://c:99999'", "tracing.endpoint: is not a URL"),
        ("endpoint: 'http://c:1/a b'", "tracing.endpoint: is not a URL"),
        ("endpoint: 'http://u:hush@c:1'", "tracing.endpoint: holds a user or password"),
        ("endpoint: 'http://c:1/?key=hush'", "tracing.endpoint: has a query or fragment"),
        ("endpoint: 7", "tracing.endpoint: is not text"),
        ("sample: 2", "tracing.sample: is out of range"),
        ("sample: .nan", "tracing.sample: is out of range"),
        ("sample: true", "tracing.sample: is not a number"),
        ("sample: all", "tracing.sample: is not a number"),
        ("endpont: null", "tracing.endpont: is an unknown key, did you mean endpoint?"),
    ],
)
def test_wrong_values(problems: Callable[..., list[str]], text: str, problem: str) -> None:
    (line,) = problems(f"tracing: {{{text}}}\n")
    assert problem in line
    assert "hush" not in line


@pytest.mark.parametrize("missing", ["opentelemetry", "opentelemetry.exporter"])
def test_without_the_extra_it_says_what_to_install_and_does_not_start(tmp_path: Path, missing: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "server: {host: 127.0.0.1, port: 0}\nadmin: {port: 0}\ntracing: {endpoint: 'http://c:1'}\n" + PAIR
    )
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing), "serve", "-c", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    (line,) = ran.stderr.splitlines()
    assert ran.returncode == 2
    assert line.startswith(f"{file}: tracing.endpoint needs OpenTelemetry (No module named 'opentelemetry")
    assert line.endswith("pip install 'spec-router[tracing]'")


def test_without_tracing_the_extra_is_not_even_imported() -> None:
    code = "import sys, router.cli.serve; print('opentelemetry' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.stdout.strip() == "False", ran.stderr
