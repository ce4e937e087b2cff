"""A driver that speaks of the GPUs in a file; for PYTHONPATH of a launcher under test."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.fake_gpus import FakeGpus


class NVMLError(Exception):
    """As the real one."""


@dataclass
class _Memory:
    total: int
    free: int
    used: int


@dataclass
class _Process:
    pid: int
    usedGpuMemory: int | None  # noqa: N815


def nvmlInit() -> None:  # noqa: N802
    """Nothing to do."""


def nvmlShutdown() -> None:  # noqa: N802
    """Nothing to do."""


def nvmlDeviceGetCount() -> int:  # noqa: N802
    """GPUs."""
    return len(FakeGpus.of_environment().sizes)


def nvmlDeviceGetHandleByIndex(index: int) -> int:  # noqa: N802
    """The handle is the index."""
    return index


def nvmlDeviceGetName(_: int) -> str:  # noqa: N802
    """All are the same."""
    return "NVIDIA Fake"


def nvmlDeviceGetMemoryInfo(index: int) -> _Memory:  # noqa: N802
    """Bytes."""
    gpus = FakeGpus.of_environment()
    total, free = gpus.sizes[index], gpus.free()[index]
    return _Memory(total, free, total - free)


def nvmlDeviceGetComputeRunningProcesses(index: int) -> list[_Process]:  # noqa: N802
    """One entry per process."""
    sizes: dict[int, int] = {}
    for held in FakeGpus.of_environment().held():
        if held.gpu == index:
            sizes[held.pid] = sizes.get(held.pid, 0) + held.size
    return [_Process(pid, size) for pid, size in sizes.items()]


def nvmlSystemGetProcessName(pid: int) -> str:  # noqa: N802
    """As the process called itself when it took memory."""
    return next((held.name for held in FakeGpus.of_environment().held() if held.pid == pid), "unknown")
