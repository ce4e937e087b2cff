"""What GPUs there are: asked from the driver, or given by hand so that a plan can be made on a laptop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module, resources
from typing import Any

from router.config.errors import Invalid
from router.config.units import parse_size
from router.launch.files import LaunchFileError, Reader, parse_yaml
from router.launch.plan.shapes import ForeignProcess, GpuMemory

GPU_FORMS = "auto, or COUNTxSIZE as 8x96GiB or 8x97887MiB, or COUNTxCARD as 4xh200"
_BY_HAND = re.compile(r"([1-9][0-9]{0,2})x(\S+)")
_SOLD_AS = re.compile(r"([0-9]+)Gi?B")
_DECIMAL = re.compile(r"([0-9]+)GB")


def gpus_by_hand(text: str) -> tuple[GpuMemory, ...]:
    """GPUs with nothing on them. Raises LaunchFileError."""
    match = _BY_HAND.fullmatch(text)
    if match is None:
        raise LaunchFileError(f"gpus: {text!r} is not allowed; allowed: {GPU_FORMS}")
    name, total = _card(match[2])
    return tuple(GpuMemory(index, name, total, total) for index in range(int(match[1])))


def _card(text: str) -> tuple[str, int]:
    place = "gpus.yaml"
    content = (resources.files("router.launch") / "profiles" / place).read_text(encoding="utf-8")
    cards = {
        name: Reader.of(f"{place}: {name}", card)
        for name, card in Reader.of(place, parse_yaml(content, place)).values.items()
    }
    sold_as = _SOLD_AS.fullmatch(text)
    for name, card in cards.items():
        # What is sold as 96 GB has less than 96 GiB: the driver keeps some, and that decides.
        if text.lower() == name or (sold_as and int(sold_as[1]) == card.needed("sold_as")):
            return card.text("name"), parse_size(card.text("total"))
    decimal = _DECIMAL.fullmatch(text)
    if decimal:
        return text, int(decimal[1]) * 10**9
    try:
        return text, parse_size(text)
    except Invalid as wrong:
        known = ", ".join(cards)
        raise LaunchFileError(f"gpus: {text!r} {wrong.what}; allowed: a size, or one of {known}") from None


def gpus_of_driver() -> tuple[GpuMemory, ...]:
    """What NVML says. Raises LaunchFileError where there is no driver or no nvidia-ml-py."""
    nvml = open_nvml()
    try:
        return read_gpus(nvml)
    finally:
        nvml.nvmlShutdown()


def open_nvml() -> Any:
    """The module, initialised; the caller shuts it down. Raises LaunchFileError."""
    try:
        nvml = import_module("pynvml")
    except ImportError:
        raise LaunchFileError(
            "gpus: auto needs nvidia-ml-py, which is missing (pip install nvidia-ml-py); or give the GPUs "
            f"by hand; allowed: {GPU_FORMS}"
        ) from None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise LaunchFileError(f"gpus: the driver does not answer: {error}; allowed: {GPU_FORMS}") from None
    return nvml


def read_gpus(nvml: Any) -> tuple[GpuMemory, ...]:
    """All GPUs now. Raises LaunchFileError if the driver fails."""
    try:
        return tuple(_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError as error:
        raise LaunchFileError(f"gpus: the driver does not answer: {error}; allowed: {GPU_FORMS}") from None


def _gpu(nvml: Any, index: int) -> GpuMemory:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    name = nvml.nvmlDeviceGetName(handle)
    processes = tuple(
        ForeignProcess(each.pid, _process_name(nvml, each.pid), each.usedGpuMemory or 0)
        for each in nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    )
    return GpuMemory(
        index, name if isinstance(name, str) else name.decode(), memory.total, memory.free, processes
    )


def _process_name(nvml: Any, pid: int) -> str:
    try:
        name = nvml.nvmlSystemGetProcessName(pid)
    except nvml.NVMLError:
        return "unknown"
    return name if isinstance(name, str) else str(name.decode(errors="replace"))


def gpu_names(gpus: Sequence[GpuMemory]) -> tuple[str, ...]:
    """For choosing a hardware profile."""
    return tuple(gpu.name for gpu in gpus)
