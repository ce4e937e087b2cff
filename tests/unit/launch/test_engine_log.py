"""What is read from SGLang's log lines."""

from __future__ import annotations

import pytest

from router.launch.engine_log import LogReader, Progress, Stage, progress_of


@pytest.mark.parametrize(
    ("line", "progress"),
    [
        ("[2026-11-29 16:16:47 TP3] Load weight begin. avail mem=139.13 GB", Progress(Stage.WEIGHTS)),
        (
            "Loading safetensors checkpoint shards:  56% Completed | 5/9 [00:13<00:11,  2.87s/it]",
            Progress(Stage.WEIGHTS, 0.56, "5/9"),
        ),
        (
            "Multi-thread loading shards: 100% Completed | 31/31 [00:10<00:00,  3.01it/s]",
            Progress(Stage.WEIGHTS, 1.0, "31/31"),
        ),
        (
            "[2026-07-01 15:19:55 TP10] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 387968, "
            "K size: 5.92 GB, V size: 5.92 GB",
            Progress(Stage.POOL, None, "387968 tokens"),
        ),
        (
            "[2025-11-30 12:50:10] Capture cuda graph begin. This can take up to several minutes.",
            Progress(Stage.GRAPHS),
        ),
        ("Capture draft decode CUDA graph begin.", Progress(Stage.GRAPHS)),
        (
            "Capturing batches (bs=5 avail_mem=55.77 GB):  86%|████▋ | 44/51 [00:03<00:00, 20.55it/s]",
            Progress(Stage.GRAPHS, 0.86, "44/51"),
        ),
        ("[2026-11-29 16:16:47] The server is fired up and ready to roll!", None),
        ("[2026-11-29 16:16:47 TP0] Decode batch. #running-req: 3", None),
    ],
)
def test_lines(line: str, progress: Progress | None) -> None:
    assert progress_of(line) == progress


def test_a_bar_is_rewritten_and_kept_once() -> None:
    reader = LogReader()
    assert reader.feed("Load weight begin. avail mem=1 GB\n")
    for done in range(5):
        assert reader.feed(f"\rLoading checkpoint shards: {done * 25}% Completed | {done}/4 [00:01]\r")
    assert reader.progress == Progress(Stage.WEIGHTS, 1.0, "4/4")
    assert len(reader.tail(10)) <= 2


def test_a_line_may_come_in_pieces() -> None:
    reader = LogReader()
    assert not reader.feed("KV Cache is allo")
    assert reader.feed("cated. #tokens: 17, K size\n")
    assert reader.progress.says == "17 tokens"


def test_a_heartbeat_that_only_counts_is_no_progress() -> None:
    reader = LogReader()
    assert reader.feed("[2026-11-29 16:16:47] still waiting, 1.0 s\n")
    assert not reader.feed(
        "[2026-11-29 16:16:52] still waiting, 6.0 s\n[2026-11-29 16:16:57] still waiting, 11 s\n"
    )
    assert reader.feed("[2026-11-29 16:16:58] compiling kernel\n")


def test_what_is_kept_is_bounded_and_has_no_control_characters() -> None:
    reader = LogReader()
    reader.feed("".join(f"line {number} \x1b[31mred\x1b[0m\x07\n" for number in range(1000)))
    assert reader.tail(2) == ["line 998 red", "line 999 red"]
    assert len(reader.tail(10_000)) == 200
    reader.feed("x" * 100_000)
    assert max(len(line) for line in reader.tail(1)) <= 10_000
