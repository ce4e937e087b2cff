"""The table of known ends, against the words of real logs."""

from __future__ import annotations

import pytest

from router.launch.failures import ending, explain, known_failures

TABLE = known_failures()


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (
            "Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.05. "
            "Raise --mem-fraction-static above 0.788 (minimum viable = 1 - available/pre = 0.7879). If ...",
            "more than 0.788",
        ),
        (
            "Capturing batches (bs=5 avail_mem=55.77 GB):  86%|x| 44/51\n"
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 MiB ... 35.56 MiB is free.",
            "while CUDA graphs were captured",
        ),
        (
            "Capture cuda graph begin.\nmax_total_num_tokens=100, chunked_prefill_size=8192\nDecode batch\n"
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 MiB",
            "out of GPU memory. Raise",
        ),
        (
            "[Errno 98] error while attempting to bind on address ('::1', 30000): address already in use",
            "a port was taken",
        ),
        (
            "The memory capacity is unbalanced. Some GPUs may be occupied by others. "
            "pre_model_load_memory=19.22, local_gpu_memory=30.54, local_gpu_memory * 0.9=27.49",
            "only 19.22 GB free where another has 30.54",
        ),
        (
            "CUDA error: no kernel image is available for execution on the device",
            "no kernels for",
        ),
        (
            "ImportError: cannot open: sgl_kernel/common_ops.abi3.so",
            "sgl_kernel cannot be loaded",
        ),
        ("/usr/bin/python3: Error: No module named 'sglang'", "has no sglang"),
        (
            "AssertionError: shared logits buffer holds 1024 rows but caller needs 2048 (vocab_size=49152)",
            "more draft tokens",
        ),
        (
            "x: error: ambiguous option: --cuda-graph-max-bs may be --cuda-graph-max-bs-decode",
            "ambiguous option: --cuda-graph-max-bs may be",
        ),
        ("torch.distributed.DistBackendError: NCCL error in: ...", "NCCL failed"),
    ],
)
def test_known(log: str, says: str) -> None:
    assert says in (explain(TABLE, log.splitlines()) or "")


def test_an_unknown_end_is_not_explained() -> None:
    assert explain(TABLE, ["Segmentation fault (core dumped)"]) is None


def test_endings_in_words() -> None:
    assert ending(3) == "exit code 3"
    assert ending(-11) == "killed by SIGSEGV"
    assert "out of main memory" in ending(-9)
    assert ending(-200) == "killed by signal 200"
