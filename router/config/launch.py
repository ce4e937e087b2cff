"""The section `launch`: which engines run on which GPUs. Only the launcher reads it; the router does not.

Sizes are bytes, lengths are tokens.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from router.config.errors import Invalid
from router.config.fields import FileName, Flag, Host, listed, one_of, whole
from router.config.launch_start import Start
from router.config.scalars import FromEnv, typed
from router.config.section import Section
from router.config.units import PositiveSize
from router.core.words import Path

GPU_FORM = "auto, COUNTxSIZE as 8x96GiB or 8x97887MiB, or COUNTxCARD as 4xh200"
_GPUS = re.compile(r"auto|[1-9][0-9]{0,2}x[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def _folder(value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise Invalid("is not a folder", "the path of a checkpoint folder with config.json")
    return str(value)


def _gpus(value: object) -> str:
    if not isinstance(value, str) or not _GPUS.fullmatch(value):
        raise Invalid("does not say which GPUs", GPU_FORM)
    return str(value)


def _profile(value: object) -> str:
    if not isinstance(value, str) or not _FILE_NAME.fullmatch(value):
        raise Invalid(
            "is not the name of a profile", "a name as eagle3-chain: letters, digits, '_', '.', '-'"
        )
    return str(value)


def _optional_whole(minimum: int) -> BeforeValidator:
    check = whole(minimum).func
    return BeforeValidator(lambda value: None if value is None else check(value))  # type: ignore[call-arg]


def _share(value: object) -> float | None:
    value, allowed = typed(value), "a number above 0 and below 1, or null for a share by concurrency"
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Invalid("is not a number", allowed)
    if not 0 < value < 1:
        raise Invalid("is out of range", allowed)
    return float(value)


def _arguments(value: object) -> tuple[str, ...]:
    """Each entry is one word of the command; numbers are taken as they would be typed."""
    found = []
    for word in listed(value):
        plain = typed(word) if isinstance(word, FromEnv) else word
        if isinstance(plain, bool) or not isinstance(plain, str | int | float) or "\0" in str(plain):
            raise Invalid("holds something else than text", "one entry for each word: [--flag, value]")
        found.append(str(plain))
    return tuple(found)


def _variables(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise Invalid("is not a mapping", "NAME: text, one a line")
    for name, text in value.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise Invalid("holds something else than names of variables", "letters, digits and '_'")
        if not isinstance(text, str) or "\0" in text:
            raise Invalid(f"holds no text for {name} (put quotes around numbers)", "NAME: text, one a line")
    return {str(name): str(text) for name, text in value.items()}


Folder = Annotated[str, BeforeValidator(_folder)]
Profile = Annotated[str, BeforeValidator(_profile)]
Tokens = Annotated[int, whole(256)]
PortNumber = Annotated[int, whole(1, 65535)]


class Concurrency(Section):
    """Running requests at most, per engine."""

    speculative: Annotated[int, whole(1, 8192)] = 32
    baseline: Annotated[int, whole(1, 8192)] = 128


class BaseGpu(Section):
    """The first GPU of each engine; null follows from the placement."""

    speculative: Annotated[int | None, _optional_whole(0)] = None
    baseline: Annotated[int | None, _optional_whole(0)] = None


class EngineReserves(Section):
    """Memory per GPU for what cannot be computed exactly."""

    context: PositiveSize = 1536 << 20
    workspace: PositiveSize = 1 << 30
    spare: PositiveSize = 1 << 30


class EnginePorts(Section):
    """Where one engine listens."""

    http: PortNumber
    nccl: PortNumber


class LaunchPorts(Section):
    """Where both listen. SGLang binds its HTTP port after minutes of loading, so a clash is told here."""

    speculative: EnginePorts = EnginePorts(http=30001, nccl=29501)
    baseline: EnginePorts = EnginePorts(http=30002, nccl=29502)

    def of(self, path: Path) -> EnginePorts:
        """The ports of one engine."""
        return self.speculative if path is Path.SPECULATIVE else self.baseline

    @model_validator(mode="after")
    def _all_differ(self) -> Self:
        ports = [self.speculative.http, self.speculative.nccl, self.baseline.http, self.baseline.nccl]
        if len(set(ports)) < len(ports):
            raise Invalid("has one port twice", "four different ports")
        return self


class EngineAdditions(Section):
    """What is added to one engine's command, after everything the plan sets."""

    args: Annotated[tuple[str, ...], BeforeValidator(_arguments)] = ()
    env: Annotated[dict[str, str], BeforeValidator(_variables)] = Field(default_factory=dict)


class LaunchEngines(Section):
    """Additions per engine."""

    speculative: EngineAdditions = EngineAdditions()
    baseline: EngineAdditions = EngineAdditions()


class Sglang(Section):
    """The SGLang that is started: its interpreter, and the release whose flags are checked without it."""

    python: Folder = "python3"
    version: Profile = "0.5.23"


class Launch(Section):
    """The engines that the launcher plans and starts. Only `model` and `tp` have no default."""

    model: Folder
    draft: FileName = None
    served_model_name: FileName = None
    gpus: Annotated[str, BeforeValidator(_gpus)] = "auto"
    tp: Annotated[int, whole(1, 64)]
    base_gpu: BaseGpu = BaseGpu()
    context: Tokens = 32768
    concurrency: Concurrency = Concurrency()
    kv_share: Annotated[float | None, BeforeValidator(_share)] = None
    kv_dtype: Annotated[Literal["auto", "bf16", "fp8_e4m3"], one_of("auto", "bf16", "fp8_e4m3")] = "auto"
    kv_cell: Annotated[int | None, _optional_whole(1)] = None
    chunked_prefill: Tokens = 2048
    max_queued: Annotated[int, whole(1)] = 512
    first: Annotated[Path, one_of(*Path)] = Path.SPECULATIVE
    allow_uneven: Flag = False
    reserves: EngineReserves = EngineReserves()
    host: Host = "127.0.0.1"
    ports: LaunchPorts = LaunchPorts()
    profile: Profile = "eagle3-chain"
    profile_dir: FileName = None
    hardware: Profile = "auto"
    engines: LaunchEngines = LaunchEngines()
    sglang: Sglang = Sglang()
    start: Start = Start()
