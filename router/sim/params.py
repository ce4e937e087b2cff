"""Knobs of the simulated engines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TypedDict

from router.sim.profiles import load_profile
from router.sim.speed import Profile


@dataclass(frozen=True, slots=True)
class SimParams:
    """How a simulated pair behaves; the same for both engines.

    profile: a built-in name, a YAML file, or a Profile.
    seed: fixes texts, answer lengths and accepted drafts.
    shared: both engines on one GPU (True), or one GPU each.
    accept_length: tokens per speculative step instead of the profile's; can be changed while running.
    time_scale: how many simulated seconds pass in a real one; engine work only, `health_seconds` is real.
    default_max_tokens: when a request says nothing.
    natural_length: median and log-normal sigma of an answer's own length in tokens; None: answers never
    stop early.
    diverge_at: index of the token at which greedy answers of the speculative engine part from the baseline's;
    None: they do not. `diverge_gap`: nats between the two candidates there.
    disconnect_poll: seconds between looks for a client that left, non-streamed requests only (SGLang: 4).
    waiting_timeout, running_timeout: seconds in the queue and in the batch after which a request is given up;
    None: never, SGLang's default. Like the two before, in real seconds.
    """

    profile: str | FilePath | Profile = "strong"
    seed: int = 0
    model: str = "sim"
    shared: bool = True
    max_running_requests: int | None = None
    max_queued_requests: int | None = None
    api_key: str | None = None
    context_length: int = 32768
    kv_tokens: int = 400_000
    accept_length: float | None = None
    time_scale: float = 1.0
    default_max_tokens: int = 512
    natural_length: tuple[float, float] | None = (160.0, 0.6)
    health_seconds: float = 1.0
    disconnect_poll: float = 0.5
    waiting_timeout: float | None = None
    running_timeout: float | None = None
    diverge_at: int | None = None
    diverge_gap: float = 1.0

    def resolved_profile(self) -> Profile:
        """The profile with the running limit applied. Raises ProfileError."""
        profile = self.profile if isinstance(self.profile, Profile) else load_profile(self.profile)
        if self.max_running_requests is not None:
            profile = profile.with_max_running_requests(self.max_running_requests)
        return profile


class SimOptions(TypedDict, total=False):
    """The fields of SimParams as keyword arguments."""

    profile: str | FilePath | Profile
    seed: int
    model: str
    shared: bool
    max_running_requests: int | None
    max_queued_requests: int | None
    api_key: str | None
    context_length: int
    kv_tokens: int
    accept_length: float | None
    time_scale: float
    default_max_tokens: int
    natural_length: tuple[float, float] | None
    health_seconds: float
    disconnect_poll: float
    waiting_timeout: float | None
    running_timeout: float | None
    diverge_at: int | None
    diverge_gap: float
