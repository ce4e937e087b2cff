"""Sends files as raw requests, all at once, from a process of its own; prints the status lines as JSON.

Run as `python uploader.py PORT FILE...`. Apart, so that heavy uploads do not slow the loop that measures.
"""

from __future__ import annotations

import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def upload(port: int, data: bytes) -> str:
    """One request on a connection of its own; returns the status line of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as sock:
        sock.sendall(data)
        return sock.makefile("rb").readline().decode("latin-1").strip()


def main() -> None:
    """Upload every file named on the command line."""
    port, files = int(sys.argv[1]), sys.argv[2:]
    data = {file: Path(file).read_bytes() for file in set(files)}
    with ThreadPoolExecutor(len(files)) as pool:
        print(json.dumps(list(pool.map(lambda file: upload(port, data[file]), files))))


if __name__ == "__main__":
    main()
