"""`spec-router launch` with a bug: it raises once all engines are up."""

from __future__ import annotations

import router.cli.launch
from router.cli import main
from router.launch.supervisor import Supervisor


class Buggy(Supervisor):
    """Fails at the first look after everything is up."""

    def _look(self) -> None:
        super()._look()
        if self.complete.is_set():
            raise RuntimeError("a bug")


if __name__ == "__main__":
    router.cli.launch.Supervisor = Buggy  # type: ignore[misc]
    main()
