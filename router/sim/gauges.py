"""What a simulated engine counts, and the late snapshots of it that it publishes.

SGLang refreshes its `/metrics` gauges on every prefill and each 40 decode steps, and its `/v1/loads`
snapshot on every prefill, at idle and each 15 decode steps. Readers must cope with that, so the lag is
kept.
"""

from __future__ import annotations

from dataclasses import dataclass

LOG_INTERVAL_STEPS = 40
LOADS_INTERVAL_STEPS = 15


@dataclass(slots=True)
class Counters:
    """Totals since the start. Request and token totals move when a request ends, as SGLang's do."""

    requests: int = 0
    aborted: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    cached_tokens: int = 0
    decoded_tokens: int = 0
    prefilled_tokens: int = 0
    prefill_seconds: float = 0.0
    verify_calls: int = 0
    verified_tokens: int = 0

    @property
    def mean_accept_length(self) -> float | None:
        """Lifetime mean tokens per verify step of a request; None before the first one."""
        return self.verified_tokens / self.verify_calls if self.verify_calls else None

    @property
    def cache_hit_rate(self) -> float:
        """Share of the prompt tokens that needed no prefill."""
        total = self.prefilled_tokens + self.cached_tokens
        return self.cached_tokens / total if total else 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Occupancy at one moment (`at`, seconds of the driver's clock). Rates are tokens per second of that
    clock.
    """

    at: float = 0.0
    running: int = 0
    waiting: int = 0
    waiting_tokens: int = 0
    used_tokens: int = 0
    tokens_per_second: float = 0.0
    accept_length: float = 0.0


class Window:
    """Tokens and verify steps since the last log line: recent throughput and accept length."""

    def __init__(self) -> None:
        self.steps = 0
        self._since = 0.0
        self._tokens = 0
        self._request_steps = 0

    def restart(self, now: float) -> None:
        """Forget what was seen; the next window begins at `now`."""
        self.steps = 0
        self._since = now
        self._tokens = 0
        self._request_steps = 0

    def add(self, tokens: int, request_steps: int) -> None:
        """One decode step: tokens gained by all requests in it together."""
        self.steps += 1
        self._tokens += tokens
        self._request_steps += request_steps

    def close(self, now: float) -> tuple[float, float]:
        """(tokens per second, tokens per request and step) of the window; a new one begins."""
        elapsed = now - self._since
        rate = self._tokens / elapsed if elapsed > 0 else 0.0
        gain = self._tokens / self._request_steps if self._request_steps else 0.0
        self.restart(now)
        return rate, gain
