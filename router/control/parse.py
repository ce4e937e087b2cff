"""Reading what an engine says of itself (SGLang 0.5.16 to 0.5.23).

Pure. What is missing, malformed or not a number is None, never an error.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from router.core.arguments import chosen, speculates
from router.core.identity import Identity
from router.core.load import finite


@dataclass(frozen=True, slots=True)
class Loads:
    """`/v1/loads`, over all data parallel ranks."""

    running: int | None = None
    waiting: int | None = None
    token_usage: float | None = None
    gen_throughput: float | None = None
    stamp: float | None = None


@dataclass(frozen=True, slots=True)
class Gauges:
    """The series of `/metrics` that matter here."""

    generation_tokens: float | None = None
    accept_length: float | None = None
    cache_hits: float | None = None
    prefilled_tokens: float | None = None


def read_loads(body: bytes) -> Loads:
    """Sums over ranks; the mean of their token usage, for each has a pool of the same size.

    `stamp` is the oldest rank's: the sum is news only once every rank has news.
    """
    answer = _json(body)
    ranks = answer.get("loads") if answer else None
    if not isinstance(ranks, list) or not ranks or not all(isinstance(rank, dict) for rank in ranks):
        return Loads()

    def total(key: str) -> float | None:
        values = [number for rank in ranks if (number := finite(rank.get(key))) is not None]
        return sum(values) if len(values) == len(ranks) else None

    stamps = [stamp for rank in ranks if (stamp := finite(rank.get("timestamp"))) is not None]
    running, waiting, usage = total("num_running_reqs"), total("num_waiting_reqs"), total("token_usage")
    return Loads(
        running=None if running is None else int(running),
        waiting=None if waiting is None else int(waiting),
        token_usage=None if usage is None else usage / len(ranks),
        gen_throughput=total("gen_throughput"),
        stamp=min(stamps) if len(stamps) == len(ranks) else None,
    )


def read_identity(body: bytes) -> Identity | None:
    """What `/server_info` says an engine is; None: nothing of use.

    The arguments stand in it flat, both API keys in clear among them: only what is named here is kept.
    """
    answer = _json(body)
    if not answer:
        return None
    speculative = None
    if "speculative_algorithm" in answer:
        speculative = speculates(answer["speculative_algorithm"])
    adaptive = answer.get("speculative_adaptive")
    found = Identity(
        speculative=speculative,
        adaptive=adaptive if isinstance(adaptive, bool) else None,
        model=_name(answer.get("served_model_name")) or _name(answer.get("model_path")),
        version=_name(answer.get("version")),
        context_length=_count(answer.get("context_length")),
        max_total_num_tokens=_count(answer.get("max_total_num_tokens")),
        max_req_input_len=_count(answer.get("max_req_input_len")),
        max_running_requests=_running_limit(answer),
        draft=_base_name(answer.get("speculative_draft_model_path")),
        arguments=chosen(answer),
    )
    return None if found == Identity() else found


def _running_limit(answer: dict[str, object]) -> int | None:
    """What the engine made of `--max-running-requests` (a speculative one defaults to 48), over all ranks."""
    states = answer.get("internal_states")
    ranks = [state for state in states if isinstance(state, dict)] if isinstance(states, list) else []
    limits = [_count(rank.get("effective_max_running_requests_per_dp")) for rank in ranks]
    known = [limit for limit in limits if limit is not None]
    return sum(known) if known else _count(answer.get("max_running_requests"))


def _name(value: object) -> str | None:
    """A name that may stand in a log line: printable and not too long."""
    return value if isinstance(value, str) and value.isprintable() and 0 < len(value) <= 256 else None


def _base_name(path: object) -> str | None:
    """The last part of a path or of `owner/model`: where a model lies is no part of what it is."""
    return _name(PurePosixPath(path).name) if isinstance(path, str) else None


def _count(value: object) -> int | None:
    number = finite(value)
    return int(number) if number is not None and number > 0 else None


def read_gauges(body: bytes) -> Gauges:
    """Counted tokens, the recent accept length, the recent share of the prefix cache.

    `realtime_tokens_total{mode="decode"}` grows while requests run; `generation_tokens_total` only when
    one ends, so its rate jumps, and it serves where the former is absent. The accept length of a plain
    engine, or of one that has not decoded yet, reads 0, which means unknown. `mode="prefill_compute"` counts
    the prompt tokens that no cache had.
    """
    decoded = _by_rank(_samples(body, b"realtime_tokens_total"), mode="decode")
    prefilled = _by_rank(_samples(body, b"realtime_tokens_total"), mode="prefill_compute")
    finished = _by_rank(_samples(body, b"generation_tokens_total"))
    lengths = [value for value in _by_rank(_samples(body, b"spec_accept_length")) if value > 0.0]
    counted = decoded or finished
    hits = [value for value in _by_rank(_samples(body, b"cache_hit_rate")) if 0.0 <= value <= 1.0]
    return Gauges(
        generation_tokens=sum(counted) if counted else None,
        accept_length=sum(lengths) / len(lengths) if lengths else None,
        cache_hits=sum(hits) / len(hits) if hits else None,
        prefilled_tokens=sum(prefilled) if prefilled else None,
    )


_SAMPLE_END = re.compile(rb"(?:\{(?P<labels>[^\n]*)\})?[ \t]+(?P<value>[^\s]+)[^\n]*(?:\n|\Z)")
_LABEL = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def _samples(body: bytes, name: bytes) -> Iterator[tuple[dict[bytes, bytes], float]]:
    """Labels and finite value of each sample of a family; other lines are not looked at."""
    start = b"\nsglang:" + name
    text = b"\n" + body
    at = text.find(start)
    while at >= 0:
        found = _SAMPLE_END.match(text, at + len(start))
        if found:
            try:
                value = finite(float(found["value"]))
            except ValueError:
                value = None
            if value is not None:
                yield dict(_LABEL.findall(found["labels"] or b"")), value
        at = text.find(start, at + len(start))


def _by_rank(samples: Iterator[tuple[dict[bytes, bytes], float]], mode: str | None = None) -> list[float]:
    """One value per data parallel rank.

    Tensor, pipeline and expert ranks repeat their rank's numbers, and with priorities each has a series
    beside the sum, whose label is empty.
    """
    ranks: dict[bytes, float] = defaultdict(float)
    for labels, value in samples:
        if labels.get(b"priority") or (mode and labels.get(b"mode") != mode.encode()):
            continue
        rank = labels.get(b"dp_rank", b"")
        ranks[rank] = max(ranks[rank], value)
    return list(ranks.values())


def _json(body: bytes) -> dict[str, object] | None:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
