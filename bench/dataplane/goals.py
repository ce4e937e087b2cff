"""What is to be reached, and the table that says whether it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.dataplane.figures import Values

OURS, PEER = "spec-router", "sglang-router"


@dataclass(frozen=True, slots=True)
class Goal:
    """A row of the table.

    Attributes:
        key, text: of the figure.
        ratio: at most this many times the peer's; None: not judged.
        limit: at most this; None: not judged.
    """

    key: str
    text: str
    ratio: float | None = None
    limit: float | None = None


GOALS = (
    Goal("cpu_s_per_100k_chunks", "CPU s per 100k chunks, 256 streams x 15 ms", ratio=1.0),
    Goal("chunk_delay_p99_ms", "  chunk delay p99, ms"),
    Goal("cpu_ms_per_request", "CPU ms per small request, C=16", ratio=1.5),
    Goal("request_p50_ms", "  request p50, ms"),
    Goal("added_ttft_p50_ms", "added TTFT p50, 64 streams, ms", limit=0.5),
    Goal("streams_unfinished", "1000 open streams x 60 ms: not finished", limit=0),
    Goal("rss_idle_mb", "  RSS idle, MB"),
    Goal("rss_peak_mb", "  RSS with 1000 streams, MB", limit=80),
    Goal("open_chunk_delay_p50_ms", "  chunk delay p50, ms"),
    Goal("open_chunk_delay_p99_ms", "  chunk delay p99, ms", limit=10),
    Goal("cpu_ms_per_8mb_body", "CPU ms per 8 MB body", ratio=1.5),
    Goal("gap_during_bodies_p99_ms", "  gaps of 10 ms streams meanwhile, p99, ms"),
    Goal("gap_during_bodies_max_ms", "  the longest, ms", limit=50),
    Goal("unpaced_stream_p50_ms", "one unpaced stream of 100 chunks, ms"),
    Goal("unpaced_ttft_max_ms", "  the latest first token of 20, ms", limit=20),
    Goal("idle_cpu_ms_per_s", "CPU ms per idle second"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """A figure: medians over the pairs, and the median of the pairs' ratios. `ok` is None if not judged."""

    goal: Goal
    ours: float
    peer: float | None
    ratio: float | None
    ok: bool | None


def judge(pairs: Sequence[Mapping[str, Values]]) -> list[Row]:
    """The rows of the table.

    Args:
        pairs: of each pair of runs the figures by proxy; the peer's may be missing.
    """
    return [_row(goal, pairs) for goal in GOALS if all(goal.key in pair[OURS] for pair in pairs)]


def _row(goal: Goal, pairs: Sequence[Mapping[str, Values]]) -> Row:
    ours = median(pair[OURS][goal.key] for pair in pairs)
    if not all(PEER in pair for pair in pairs):
        return Row(goal, ours, None, None, None if goal.limit is None else ours <= goal.limit)
    peer = median(pair[PEER][goal.key] for pair in pairs)
    ratios = [pair[OURS][goal.key] / pair[PEER][goal.key] for pair in pairs if pair[PEER][goal.key] > 0]
    ratio = median(ratios) if ratios else None
    ok = None
    if goal.limit is not None:
        ok = ours <= goal.limit
    elif goal.ratio is not None and ratio is not None:
        ok = ratio <= goal.ratio
    return Row(goal, ours, peer, ratio, ok)


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    lines = [f"{'':46}{OURS:>12}{PEER:>15}{'ratio':>8}  goal"]
    for row in rows:
        goal = row.goal
        wanted = f"<= {goal.ratio}x" if goal.ratio else f"<= {goal.limit}" if goal.limit is not None else ""
        verdict = {None: "", True: "reached", False: "MISSED"}[row.ok]
        peer = "" if row.peer is None else f"{row.peer:.3f}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        lines.append(f"{goal.text:46}{row.ours:>12.3f}{peer:>15}{ratio:>8}  {wanted:9} {verdict}".rstrip())
    return "\n".join(lines)
