"""What a run amounts to, and how sure its figures are over repeats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

from router.core.calibration import quantile
from router.core.words import Path
from router.replay.engine import Job
from router.replay.run import Run

# Two-sided 95 % of Student's t by degrees of freedom; beyond the table it is close to the last one.
_T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.0)


@dataclass(frozen=True, slots=True)
class Slo:
    """What a request is promised, in seconds: first token, and each token after it."""

    ttft: float = 2.0
    tpot: float = 0.05


@dataclass(frozen=True, slots=True)
class Figures:
    """One run in numbers. Times are seconds; latency is arrival to the last token.

    Attributes:
        requests: how many were served.
        latency_mean, latency_p50, latency_p95, latency_p99: of requests.
        ttft_p50, ttft_p99: arrival to the first token.
        tpot_p50, tpot_p95, tpot_p99: per token after the first.
        tokens_per_second: output tokens until the last one.
        switches, down_switches: changes of the active path, and those back to speculation.
        mixed_share: of the time, with both engines at work.
        slo: share of the requests that got what was promised.
        speculative_share: of the requests.
    """

    requests: float
    latency_mean: float
    latency_p50: float
    latency_p95: float
    latency_p99: float
    ttft_p50: float
    ttft_p99: float
    tpot_p50: float
    tpot_p95: float
    tpot_p99: float
    tokens_per_second: float
    switches: float
    down_switches: float
    mixed_share: float
    slo: float
    speculative_share: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure over repeats: its mean, and half the width of its 95 % interval (0 for one repeat)."""

    mean: float
    within: float


def summarise(run: Run, slo: Slo, since: float = 0.0, until: float = math.inf) -> Figures:
    """The figures of the requests that arrived in [since, until).

    Raises:
        ValueError: there is none.
    """
    jobs = [job for job in run.jobs if since <= job.arrived < until]
    if not jobs:
        raise ValueError("nothing arrived in this time")
    latency = [job.done - job.arrived for job in jobs]
    first = [job.first - job.arrived for job in jobs]
    per_token = [_tpot(job) for job in jobs if job.output > 1] or [0.0]
    total = sum(latency)
    for values in (latency, first, per_token):
        values.sort()  # once, for the quantiles
    kept = sum(job.first - job.arrived <= slo.ttft and _tpot(job) <= slo.tpot for job in jobs)
    return Figures(
        requests=len(jobs),
        latency_mean=total / len(jobs),
        latency_p50=quantile(latency, 0.5),
        latency_p95=quantile(latency, 0.95),
        latency_p99=quantile(latency, 0.99),
        ttft_p50=quantile(first, 0.5),
        ttft_p99=quantile(first, 0.99),
        tpot_p50=quantile(per_token, 0.5),
        tpot_p95=quantile(per_token, 0.95),
        tpot_p99=quantile(per_token, 0.99),
        tokens_per_second=sum(job.output for job in run.jobs) / run.seconds,
        switches=len(run.switches),
        down_switches=sum(switch.target is Path.SPECULATIVE for switch in run.switches),
        mixed_share=run.mixed_seconds / run.seconds,
        slo=kept / len(jobs),
        speculative_share=run.served[Path.SPECULATIVE] / len(run.jobs),
    )


def estimates(repeats: Sequence[Figures]) -> dict[str, Estimate]:
    """Each figure over the repeats."""
    rows = [asdict(each) for each in repeats]
    return {each.name: estimate([row[each.name] for row in rows]) for each in fields(Figures)}


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and interval of at least one value."""
    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return Estimate(mean, 0.0)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    return Estimate(mean, _T95[min(count - 2, len(_T95) - 1)] * deviation / math.sqrt(count))


def _tpot(job: Job) -> float:
    return (job.done - job.first) / (job.output - 1) if job.output > 1 else 0.0
