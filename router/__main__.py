"""`python -m router`: the same as `spec-router`."""

from __future__ import annotations

import signal

# Ctrl-C while the parts are being loaded, when there is nothing to clean up yet: end without a traceback.
_before = signal.signal(signal.SIGINT, signal.SIG_DFL)

from router.cli import main  # noqa: E402

signal.signal(signal.SIGINT, _before)

if __name__ == "__main__":
    main()
