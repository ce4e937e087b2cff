"""GPUs by hand, and from a driver that is played."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from router.launch.files import LaunchFileError
from router.launch.gpus import gpus_by_hand, gpus_of_driver
from router.launch.plan import ForeignProcess

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("text", "count", "total", "name"),
    [
        ("8x96GiB", 8, 97887 * MIB, "RTX PRO 6000"),
        ("8x96GB", 8, 97887 * MIB, "RTX PRO 6000"),
        ("4x141GB", 4, 143771 * MIB, "H200"),
        ("2xh200", 2, 143771 * MIB, "H200"),
        ("8x97887MiB", 8, 97887 * MIB, "97887MiB"),
        ("1x24GiB", 1, 24 * GIB, "24GiB"),
        ("1x24GB", 1, 24 * 10**9, "24GB"),
    ],
)
def test_by_hand(text: str, count: int, total: int, name: str) -> None:
    found = gpus_by_hand(text)
    assert [gpu.index for gpu in found] == list(range(count))
    assert {(gpu.total, gpu.free) for gpu in found} == {(total, total)}
    assert name in found[0].name


@pytest.mark.parametrize("text", ["8", "x96GiB", "0x96GiB", "8x", "8x96", "8xh300", "8x96TB", ""])
def test_what_is_not_understood_is_told_with_the_forms(text: str) -> None:
    with pytest.raises(LaunchFileError, match=r"^gpus: .*allowed: "):
        gpus_by_hand(text)


class PlayedError(Exception):
    """What NVML raises."""


class PlayedDriver(ModuleType):
    """The part of pynvml that is used; a process whose name is withheld is on GPU 1."""

    NVMLError = PlayedError

    def __init__(self, works: bool = True) -> None:
        super().__init__("pynvml")
        self.works = works
        self.shut = 0

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.works:
            raise PlayedError("Driver Not Loaded")

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.shut += 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(total=80 * GIB, free=(79 - 5 * handle) * GIB)

    def nvmlDeviceGetName(self, handle: int) -> str | bytes:  # noqa: N802
        return b"NVIDIA H100" if handle else "NVIDIA H100"

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=77, usedGpuMemory=5 * GIB), SimpleNamespace(pid=78, usedGpuMemory=None)][
            : 2 * handle
        ]

    def nvmlSystemGetProcessName(self, pid: int) -> bytes:  # noqa: N802
        if pid == 78:
            raise PlayedError("No Permission")
        return b"python3"


def test_from_the_driver_with_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = PlayedDriver()
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    found = gpus_of_driver()
    assert [(gpu.index, gpu.name, gpu.free) for gpu in found] == [
        (0, "NVIDIA H100", 79 * GIB),
        (1, "NVIDIA H100", 74 * GIB),
    ]
    assert found[0].processes == ()
    assert found[1].processes == (ForeignProcess(77, "python3", 5 * GIB), ForeignProcess(78, "unknown", 0))
    assert driver.shut == 1


def test_without_a_driver_or_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", PlayedDriver(works=False))
    with pytest.raises(LaunchFileError, match="Driver Not Loaded; allowed: "):
        gpus_of_driver()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(LaunchFileError, match="pip install nvidia-ml-py"):
        gpus_of_driver()
