"""What an engine is: kind, model, limits, version; and what is wrong with how two of them are wired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from router.core.arguments import Arguments, flags_hash
from router.core.calibration import Key
from router.core.words import Path, Placement

# Versions whose HTTP surface was looked at; others are likely to work and are named once in the log.
KNOWN_VERSIONS = frozenset({"0.5.16", "0.5.23"})


@dataclass(frozen=True, slots=True)
class Identity:
    """One engine, by its own account. What it does not say is None. Holds no secret.

    Attributes:
        speculative: True if it runs a speculative algorithm.
        adaptive: True if that algorithm may turn itself off (`--speculative-adaptive`).
        model: the served model's name.
        version: SGLang's.
        context_length: tokens of prompt and answer.
        max_total_num_tokens: tokens of its KV pool.
        max_req_input_len: tokens of the longest prompt it takes.
        max_running_requests: requests it runs at a time.
        draft: name of the draft model: the last part of its path.
        arguments: those of its server arguments that decide its speed; see `router.core.arguments`.
    """

    speculative: bool | None = None
    adaptive: bool | None = None
    model: str | None = None
    version: str | None = None
    context_length: int | None = None
    max_total_num_tokens: int | None = None
    max_req_input_len: int | None = None
    max_running_requests: int | None = None
    draft: str | None = None
    arguments: Arguments = field(default_factory=dict, hash=False)


def key_of(speculative: Identity, baseline: Identity, placement: Placement) -> Key:
    """The key of a calibration that is made of these two engines. What they do not agree on is not known."""
    engines = {Path.SPECULATIVE: speculative.arguments, Path.BASELINE: baseline.arguments}
    return Key(
        speculative.model if speculative.model == baseline.model else None,
        speculative.draft,
        speculative.version if speculative.version == baseline.version else None,
        flags_hash(engines),
        placement,
        {path: arguments for path, arguments in engines.items() if arguments},
    )


def key_of_engine(path: Path, engine: Identity) -> Key:
    """What one engine alone tells of the key of its pair."""
    return Key(
        model=engine.model,
        draft=engine.draft if path is Path.SPECULATIVE else None,
        engine=engine.version,
        arguments={path: engine.arguments} if engine.arguments else {},
    )


@dataclass(frozen=True, slots=True)
class KeyRefused:
    """The engine did not tell what it is: 401 or 403. `shown`: we have a key for it, and showed it."""

    shown: bool


Told = Identity | KeyRefused


class Fault(StrEnum):
    """What can be wrong with the wiring; `code` in status and readiness."""

    SWAPPED = "swapped"
    SAME_KIND = "same_kind"
    WRONG_KIND = "wrong_kind"
    MODELS_DIFFER = "models_differ"
    CONTEXTS_DIFFER = "contexts_differ"
    KEY_REFUSED = "key_refused"
    KEY_MISSING = "key_missing"
    HIGH_ABOVE_LIMIT = "high_above_limit"
    CALIBRATION_DIFFERS = "calibration_differs"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, in a sentence without addresses and secrets."""

    fault: Fault
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from what the engines are.

    Attributes:
        problems: what is wrong.
        excluded: paths that get no request.
        crossed: the engine configured as speculative is the plain one and the other way round, so each
            stands for the other's path.
    """

    problems: tuple[Problem, ...] = ()
    excluded: frozenset[Path] = frozenset()
    crossed: bool = False


def judge(placement: Placement, told: Mapping[Path, Told], high: int | None) -> Verdict:
    """Judge the wiring of a pair by what its engines said so far.

    Args:
        placement: a pair with one engine has no wrong kind.
        told: by configured path; engines that have said nothing yet are absent.
        high: the policy's upper watermark, if it has one.
    """
    problems, excluded = _keys(told)
    known = {path: one for path, one in told.items() if isinstance(one, Identity)}
    crossed = False
    if placement is not Placement.SINGLE:
        found, out, crossed = _kinds(known)
        problems += found
        excluded |= out
        found, out = _models(known)
        problems += found
        excluded |= out
    limit = _limit(known, crossed)
    if high is not None and limit is not None and high > limit:
        text = (
            f"policy.high is {high}, but the speculative engine runs at most {limit} requests "
            "(--max-running-requests): above that they queue in it before the path changes"
        )
        problems.append(Problem(Fault.HIGH_ABOVE_LIMIT, text))
    return Verdict(tuple(problems), frozenset(excluded), crossed)


def _keys(told: Mapping[Path, Told]) -> tuple[list[Problem], set[Path]]:
    problems: list[Problem] = []
    excluded: set[Path] = set()
    for path, one in told.items():
        if isinstance(one, Identity):
            continue
        if one.shown:
            excluded.add(path)
            text = f"the {path} engine refuses the key in pairs[0].{path}.api_key"
            problems.append(Problem(Fault.KEY_REFUSED, text))
        else:
            # Clients may well bring a key of their own, so this alone is no reason to keep them away.
            text = f"the {path} engine wants a key to say what it is, and pairs[0].{path}.api_key has none"
            problems.append(Problem(Fault.KEY_MISSING, text))
    return problems, excluded


def _kinds(known: Mapping[Path, Identity]) -> tuple[list[Problem], set[Path], bool]:
    """No path may claim what its engine does not do."""
    kinds = {path: one.speculative for path, one in known.items() if one.speculative is not None}
    wrong = [path for path, speculative in kinds.items() if speculative is not (path is Path.SPECULATIVE)]
    if len(wrong) == 2:
        text = (
            "the URLs of the two engines are swapped: the one configured as speculative runs no speculative "
            "algorithm, the other does; only the plain one is used, as baseline"
        )
        return [Problem(Fault.SWAPPED, text)], {Path.SPECULATIVE}, True
    if not wrong:
        return [], set(), False
    (path,) = wrong
    if len(kinds) == 2:
        whose = "both engines run a" if path is Path.BASELINE else "neither engine runs a"
        text = f"{whose} speculative algorithm; only the {path.other} path is used"
        return [Problem(Fault.SAME_KIND, text)], {path}, False
    does = "runs a" if path is Path.BASELINE else "runs no"
    text = f"the engine configured as {path} {does} speculative algorithm; it is not used"
    return [Problem(Fault.WRONG_KIND, text)], {path}, False


def _models(known: Mapping[Path, Identity]) -> tuple[list[Problem], set[Path]]:
    if len(known) < 2:
        return [], set()
    one, other = known[Path.SPECULATIVE], known[Path.BASELINE]
    if one.model is not None and other.model is not None and one.model != other.model:
        text = f"the engines serve different models, {one.model!r} and {other.model!r}; only baseline is used"
        return [Problem(Fault.MODELS_DIFFER, text)], {Path.SPECULATIVE}
    lengths = (one.context_length, other.context_length)
    if None not in lengths and lengths[0] != lengths[1]:
        text = f"the engines have different context lengths, {lengths[0]} and {lengths[1]} tokens"
        return [Problem(Fault.CONTEXTS_DIFFER, text)], set()
    return [], set()


def _limit(known: Mapping[Path, Identity], crossed: bool) -> int | None:
    speculative = known.get(Path.BASELINE if crossed else Path.SPECULATIVE)
    return speculative.max_running_requests if speculative else None
