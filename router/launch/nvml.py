"""The driver, kept open for as long as memory is watched."""

from __future__ import annotations

from typing import Protocol

from router.launch.gpus import open_nvml, read_gpus
from router.launch.plan import GpuMemory


class GpuReader(Protocol):
    """Where measurements come from."""

    def read(self) -> tuple[GpuMemory, ...]:
        """All GPUs now."""
        ...

    def close(self) -> None:
        """Read no more."""
        ...


class Nvml:
    """NVML by nvidia-ml-py. Making one and reading raise LaunchFileError where there is no driver."""

    def __init__(self) -> None:
        self._nvml = open_nvml()

    def read(self) -> tuple[GpuMemory, ...]:
        """See `GpuReader`."""
        return read_gpus(self._nvml)

    def close(self) -> None:
        """See `GpuReader`."""
        self._nvml.nvmlShutdown()
