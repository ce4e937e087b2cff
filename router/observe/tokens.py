"""How many tokens an answer had, where the engine did not say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from router.core.events import RequestRecord
from router.core.words import Path


def completion_tokens(
    record: RequestRecord, accept_length: Callable[[], float | None]
) -> tuple[float | None, Literal["usage", "estimate"]]:
    """Output tokens of a request and where the number comes from.

    An event of a plain engine carries one token. A speculative engine sends what one step gained, so
    its events undercount by the accept length; while that is unknown so is the number of tokens.
    """
    if record.completion_tokens is not None:
        return record.completion_tokens, "usage"
    if not record.streamed or record.path is None:
        return None, "estimate"
    if record.path is Path.BASELINE:
        return record.events, "estimate"
    per_event = accept_length()
    return (None if per_event is None else record.events * per_event), "estimate"
