"""A real Prometheus for the time of a test."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tests.cases.kit.router import free_port

SHIPPED = Path("deploy/prometheus/prometheus.yml")


class Prometheus:
    """Runs the shipped configuration with its targets replaced by those of the test.

    Args:
        folder: for its data.
        targets: `host:port` as it stands in the shipped file → where that really is.
    """

    def __init__(self, folder: Path, targets: dict[str, str]) -> None:
        self.port = free_port()
        config = yaml.safe_load(SHIPPED.read_text())
        config["rule_files"] = [str((SHIPPED.parent / name).resolve()) for name in config["rule_files"]]
        for job in config["scrape_configs"]:
            for group in job["static_configs"]:
                group["targets"] = [targets[target] for target in group["targets"]]
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        program = shutil.which("prometheus")
        assert program, "prometheus is not installed (Debian: apt-get install prometheus)"
        self._log = (folder / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [
                program,
                f"--config.file={file}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--log.level=warn",
            ],
            stderr=self._log,
        )

    def get(self, path: str, **parameters: str) -> Any:
        """The `data` of an API call."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            body = json.load(answer)
        assert body["status"] == "success", body
        return body["data"]

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The series of an instant query."""
        result: list[dict[str, Any]] = self.get("query", query=expr)["result"]
        return result

    def ready(self) -> bool:
        """Does it answer?"""
        try:
            self.get("query", query="up")
        except OSError:
            return False
        return True

    def targets_up(self) -> set[str]:
        """Jobs all of whose targets were scraped well."""
        active = self.get("targets")["activeTargets"]
        bad = {target["labels"]["job"] for target in active if target["health"] != "up"}
        return {target["labels"]["job"] for target in active} - bad

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()
        self._log.close()
