"""How a load spreads over requests in flight."""

from __future__ import annotations

from collections import Counter

from router.replay.run import Run


def shares(run: Run) -> dict[int, float]:
    """Share of the requests by requests in flight at their arrival, themselves included."""
    ends = sorted(job.done for job in run.jobs)
    counts: Counter[int] = Counter()
    ended = 0
    for place, job in enumerate(run.jobs):
        while ended < len(ends) and ends[ended] <= job.arrived:
            ended += 1
        counts[place + 1 - ended] += 1
    return {n: count / len(run.jobs) for n, count in sorted(counts.items())}
