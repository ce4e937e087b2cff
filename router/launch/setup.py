"""What a launch works with, and the two ways in which a step of it can fail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from router.config.launch import Launch
from router.core.words import Path
from router.launch.engine_log import Progress
from router.launch.memory import free_on, used_by
from router.launch.plan import Command, GpuMemory, Plan, Refusal, SecondStart, engine_command, second_fraction
from router.launch.record import Folder
from router.launch.request import ports_of

CAP = "--max-total-tokens"
OLD_HEALTH = ("0.5.16", "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "0")
"""0.5.16 has no /ready; there /health generates a token each time unless told not to."""

NOT_INHERITED = ("PROMETHEUS_MULTIPROC_DIR",)
"""One folder for both engines would mix their metrics."""


class StepFailed(Exception):
    """The engine cannot be brought up; the text is one line for the operator."""


class DoesNotFit(StepFailed):
    """Measured memory does not allow what was planned."""

    def __init__(self, why: str, lines: tuple[str, ...] = ()) -> None:
        super().__init__("\n  ".join((why, *lines)))


class View(Protocol):
    """Where a launch is told to people."""

    def say(self, path: Path | None, text: str, *, trouble: bool = False) -> None:
        """Something happened; the text may have several lines."""
        ...

    def progress(self, path: Path, progress: Progress) -> None:
        """A starting engine's log says how far it is."""
        ...


@dataclass(frozen=True, slots=True)
class Keys:
    """What an engine is started with and asked with."""

    api_key: str | None = field(default=None, repr=False)
    admin_api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Setup:
    """One launch.

    Attributes:
        paths: which engines are started here, in order.
        capped: whether engines get `--max-total-tokens`.
        environment: of the launcher, which engines inherit.
    """

    plan: Plan
    paths: tuple[Path, ...]
    launch: Launch
    keys: Mapping[Path, Keys]
    folder: Folder
    capped: bool
    environment: Mapping[str, str]
    clock: Callable[[], float]

    def choose(self, path: Path, gpus: tuple[GpuMemory, ...], resident: Collection[int]) -> SecondStart:
        """The fraction for an engine that starts now. Raises DoesNotFit.

        Args:
            gpus: as they are now.
            resident: processes of the other engine, if it runs here.
        """
        engine = self.plan.engine(path)
        first_used = used_by(gpus, resident, engine.gpus)
        found = second_fraction(self.plan, free_on(gpus, engine.gpus), path, first_used)
        if isinstance(found, Refusal):
            raise DoesNotFit(found.reason, found.arithmetic)
        return found

    def command(self, path: Path, start: SecondStart | None) -> Command:
        """The command, with keys and without what this launch leaves out."""
        ports = ports_of(self.launch, path)
        made = engine_command(self.plan, path, start, ports, self.launch.sglang.python, str(self.folder.path))
        argv = made.argv if self.capped else without_option(made.argv, CAP)
        keys = self.keys.get(path, Keys())
        options = (("--api-key", keys.api_key), ("--admin-api-key", keys.admin_api_key))
        secret = tuple(word for name, key in options if key for word in (name, key))
        return Command((*argv, *secret), made.env, made.files)

    def env(self, command: Command) -> dict[str, str]:
        """The whole environment of an engine."""
        version, name, value = OLD_HEALTH
        old = {name: value} if self.launch.sglang.version.startswith(version) else {}
        inherited = {key: text for key, text in self.environment.items() if key not in NOT_INHERITED}
        return {**old, **inherited, **command.env}


def without_option(argv: tuple[str, ...], name: str) -> tuple[str, ...]:
    """A command without an option and its value."""
    if name not in argv:
        return argv
    at = argv.index(name)
    return argv[:at] + argv[at + 2 :]
