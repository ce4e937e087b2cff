"""The health check of the images: exit status 0 if the URL on this container answers 200.

Usage: healthcheck.py PORT PATH. No shell, no curl, and no proxy that the environment may name.
"""

from __future__ import annotations

import http.client
import sys

TIMEOUT = 4.0
"""Seconds; below the timeout of the health check itself, so that the log says what was wrong."""


def main(port: str, path: str) -> str | None:
    """None if it is well, else what is wrong."""
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=TIMEOUT)
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"{path} on port {port}: {error!r}"
    finally:
        connection.close()
    return None if status == 200 else f"{path} on port {port} says {status}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
