"""A service of a compose file as local processes: entry point of its image, command, environment, mounts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.deploy.network import Network
from tests.deploy.tools import DEPLOY, ROOT

BIN = Path(sys.executable).parent
# What the images have at places where this machine has nothing.
IN_IMAGES = {
    "/opt/spec-router/healthcheck.py": str(DEPLOY / "healthcheck.py"),
    "/opt/spec-router/bin": str(BIN),
}
# By their whole paths: a stranger may run an interpreter in root's home, but not search for it there.
PROGRAMS = {name: str(BIN / name) for name in ("python", "spec-router")}
FOREIGN = {"prom/prometheus": ["prometheus"]}
# As docker does it: an own process namespace, a root that cannot be written, another user without rights.
_READ_ONLY = 'mount -o remount,bind,ro / && mount -t tmpfs tmpfs /tmp && exec "$@"'
_STRANGER = [
    "setpriv",
    "--reuid=10001",
    "--regid=10001",
    "--clear-groups",
    "--no-new-privs",
    "--bounding-set=-all",
]


def image_entrypoint(service: Mapping[str, Any]) -> list[str]:
    """ENTRYPOINT of the Dockerfile that the service is built from, or what is known of a foreign image's."""
    if "build" not in service:
        return FOREIGN[service["image"].partition(":")[0]]
    text = (ROOT / service["build"]["dockerfile"]).read_text()
    found: list[str] = json.loads(re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)[-1])
    return found


class Container:
    """One service.

    Args:
        service: as `docker compose config` shows it.
        network: where it runs.
        folder: stands for its named volumes, and holds its output.
        extra: environment of the test, which wins.
        replace: words of the command, by what they stand as in the file.
        isolated: process namespace, read-only root and other user as for the router's image.
        init: what `init: true` is taken by; empty: the service's process is number 1 itself.
    """

    def __init__(
        self,
        service: Mapping[str, Any],
        network: Network,
        folder: Path,
        *,
        extra: Mapping[str, str] | None = None,
        replace: Mapping[str, str] | None = None,
        isolated: bool = True,
        init: tuple[str, ...] = ("tini", "--"),
    ) -> None:
        folder.mkdir(exist_ok=True)
        self._service = service
        self._network = network
        self._places = {**IN_IMAGES, **self._mounts(folder)}
        self._env = self._environment(extra or {})
        self._replace = replace or {}
        self._isolated = isolated
        self._init = init if service.get("init") else ()
        self._out = folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def _mounts(self, folder: Path) -> dict[str, str]:
        places = {}
        for mount in self._service.get("volumes", []):
            source = mount["source"]
            if mount["type"] == "volume":
                source = str(folder / source)
                Path(source).mkdir(exist_ok=True)
            places[mount["target"]] = source
        return places

    def _environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        given = {name: self._here(value) for name, value in self._service.get("environment", {}).items()}
        return {"PATH": f"{BIN}:{os.defpath}", "HOME": "/nonexistent", **given, **extra}

    def _here(self, text: str) -> str:
        """The text with places of the container as places of this machine."""
        for place, here in self._places.items():
            text = re.sub(rf"(^|=){re.escape(place)}(?=/|$)", rf"\g<1>{here}", text)
        return text

    def command(self, words: list[str]) -> list[str]:
        """The words as they run here."""
        known = {**PROGRAMS, **self._replace}
        return [self._here(known.get(word, word)) for word in words]

    @property
    def argv(self) -> list[str]:
        """What its process runs."""
        entrypoint = self._service.get("entrypoint") or image_entrypoint(self._service)
        return self.command([*entrypoint, *self._service["command"]])

    def start(self) -> None:
        """Run it."""
        argv = [*self._init, *(_STRANGER if self._isolated else ()), *self.argv]
        if self._isolated:
            own = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--mount"]
            argv = [*own, "sh", "-c", _READ_ONLY, "sh", *argv]
        with self._out.open("ab") as out:
            self.process = subprocess.Popen(
                [*self._network.enter, *argv],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    @property
    def log(self) -> str:
        """Everything it has said."""
        return self._out.read_text(errors="replace")

    @property
    def code(self) -> int | None:
        """None while it runs."""
        return None if self.process is None else self.process.poll()

    @property
    def main_pid(self) -> int:
        """The process that is number 1 inside, as docker stop addresses it."""
        assert self.process is not None
        if not self._isolated:
            return self.process.pid
        children = children_of(self.process.pid)
        assert children, f"it has no process\n{self.log}"
        return children[0]

    def stop(self, within: float | None = None) -> int:
        """As docker stop: SIGTERM to number 1; more time than the grace period is a failure."""
        assert self.process is not None
        os.kill(self.main_pid, signal.SIGTERM)
        try:
            return self.process.wait(within or grace(self._service))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still there after the grace period\n{self.log}") from None

    def kill(self) -> None:
        """End it, whatever it does."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def healthy(self) -> bool:
        """Run its health check inside."""
        kind, *words = self._service["healthcheck"]["test"]
        assert kind == "CMD"
        stranger = _STRANGER if self._isolated else []
        done = subprocess.run(
            [*self._network.enter, *stranger, *self.command(words)],
            env=self._env,
            capture_output=True,
            timeout=duration(self._service["healthcheck"]["timeout"]),
        )
        return done.returncode == 0


def children_of(pid: int) -> list[int]:
    """Its living children."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def duration(text: str) -> float:
    """Seconds of 1h2m3s, as docker compose config writes it."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    parts = re.findall(r"([0-9.]+)(ms|h|m|s)", text)
    assert "".join(number + unit for number, unit in parts) == text, text
    return sum(float(number) * units[unit] for number, unit in parts)


def grace(service: Mapping[str, Any]) -> float:
    """Seconds between SIGTERM and SIGKILL."""
    return duration(service.get("stop_grace_period", "10s"))
