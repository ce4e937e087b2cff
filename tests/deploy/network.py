"""A network of its own with names in it, as compose makes one: shipped addresses are used unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

_ASK = """
import http.client, json, sys
host, port, method, path, headers, body = json.loads(sys.argv[1])
connection = http.client.HTTPConnection(host, port, timeout=10)
try:
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    print(json.dumps([answer.status, dict(answer.getheaders()), answer.read().decode()]))
except OSError as error:
    print(json.dumps(None))
"""


class Network:
    """A network namespace (loopback only) and an /etc/hosts; both end with this process.

    Args:
        folder: for the hosts file.
    """

    def __init__(self, folder: Path) -> None:
        self._hosts = folder / "hosts"
        self._names: dict[str, str] = {"localhost": "127.0.0.1"}
        self._write()
        script = f"ip link set lo up && mount --bind {self._hosts} /etc/hosts && echo up && exec cat"
        # cat ends when our end of its pipe does, however we end.
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"up\n", "network namespaces need root"

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.wait(10)
        self._holder.stdout.close()

    @property
    def enter(self) -> list[str]:
        """Put before a command, it runs inside."""
        here = f"/proc/{self._holder.pid}/ns"
        return ["nsenter", f"--net={here}/net", f"--mount={here}/mnt", f"--wd={Path.cwd()}"]

    def name(self, host: str, address: str | None) -> None:
        """From now on the name stands for this address, or for none."""
        self._names.pop(host, None)
        if address is not None:
            self._names[host] = address
        self._write()

    def _write(self) -> None:
        # In place: it is mounted.
        self._hosts.write_text("".join(f"{address} {host}\n" for host, address in self._names.items()))

    def ask(
        self,
        host: str,
        port: int,
        path: str,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        body: Any = None,
    ) -> tuple[int, dict[str, str], str] | None:
        """Status, headers and body; None where nobody listens."""
        content = None if body is None else json.dumps(body)
        question = json.dumps([host, port, method, path, headers or {}, content])
        done = subprocess.run(
            [*self.enter, sys.executable, "-I", "-S", "-c", _ASK, question],
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        return None if answer is None else (answer[0], answer[1], answer[2])

    def status(self, host: str, port: int, path: str) -> int | None:
        """Only the status."""
        answer = self.ask(host, port, path)
        return None if answer is None else answer[0]
