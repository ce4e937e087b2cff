"""Whether the engines are what the configuration says, judged anew whenever one tells what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from structlog.typing import FilteringBoundLogger

from router.core.identity import KNOWN_VERSIONS, Identity, Problem, Told, judge
from router.core.pair import Pair
from router.core.policy import ThresholdPolicy
from router.core.words import Path


class Wiring:
    """What the engines of a pair said they are, and what follows from it.

    Args:
        pair: told which engines may be used.
        cross: lets each engine stand for the other's path; called again to undo it.
        log: one line for each problem when it comes, one when it goes.
        refit: told by path what the engines are, lets a policy decide that holds for them, and says why the
            configured one does not.
    """

    def __init__(
        self,
        pair: Pair,
        cross: Callable[[], None],
        log: FilteringBoundLogger,
        refit: Callable[[Mapping[Path, Identity]], tuple[Problem, ...]] = lambda told: (),
    ) -> None:
        self._pair = pair
        self._cross = cross
        self._refit = refit
        self._log = log.bind(pair=pair.name)
        self._told: dict[Path, Told] = {}
        self._versions: set[str] = set()
        self._problems: tuple[Problem, ...] = ()
        self.crossed = False

    def path_of(self, configured: Path) -> Path:
        """The path that the engine configured as this one stands for."""
        return configured.other if self.crossed else configured

    def identity(self, path: Path) -> Identity | None:
        """What the engine that stands for `path` last said it is."""
        told = self._told.get(self.path_of(path))
        return told if isinstance(told, Identity) else None

    def hear(self, configured: Path, told: Told) -> None:
        """The engine configured as this path was asked what it is."""
        version = told.version if isinstance(told, Identity) else None
        if version is not None and version not in KNOWN_VERSIONS | self._versions:
            self._versions.add(version)
            self._log.warning(
                "this version of SGLang was not tested", version=version, tested=sorted(KNOWN_VERSIONS)
            )
        if told != self._told.get(configured):
            self._told[configured] = told
            self.judge()

    def judge(self) -> None:
        """Judge again, for an engine or the policy has changed."""
        found = {path: one for path in Path if (one := self.identity(path)) is not None}
        unfit = self._refit(found)
        policy = self._pair.policy
        high = policy.high if isinstance(policy, ThresholdPolicy) else None
        verdict = judge(self._pair.placement, self._told, high)
        if verdict.crossed is not self.crossed:
            self.crossed = verdict.crossed
            self._cross()
        verdict = replace(verdict, problems=(*verdict.problems, *unfit))
        self._tell(verdict.problems)
        self._pair.rewire(verdict)

    def _tell(self, problems: tuple[Problem, ...]) -> None:
        for problem in problems:
            if problem not in self._problems:
                self._log.warning("wiring problem", fault=problem.fault.value, problem=problem.text)
        left = {problem.fault for problem in problems}
        for problem in self._problems:
            if problem.fault not in left:
                self._log.info("wiring problem gone", fault=problem.fault.value)
        self._problems = problems
