"""What there is to build on: memory, GPUs, and what this version can run."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Means:
    """What there is to build on. None: not known, and taken as favourable.

    Attributes:
        fits_twice: whether two engines fit on one set of GPUs.
        own_gpus: whether there is a set of GPUs for each engine; not known is no.
        adaptive: whether this version and configuration can run one adaptive engine.
        kv_tokens: tokens of the KV pool of each of two engines on one set of GPUs.
        kv_tokens_alone: of one engine that has them to itself.
        request_tokens: prompt and answer of a long request, say the p95.
        kv_tokens_speculative: of the speculative one of two, where it is not `kv_tokens`.
        refusal: why two engines do not fit; empty: not known.
    """

    fits_twice: bool | None = None
    own_gpus: bool | None = None
    adaptive: bool | None = None
    kv_tokens: int | None = None
    kv_tokens_alone: int | None = None
    request_tokens: int | None = None
    kv_tokens_speculative: int | None = None
    refusal: str = ""

    def over(self, others: Means) -> Means:
        """These, and where they say nothing the others."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(others, **{name: value for name, value in values.items() if value not in (None, "")})
