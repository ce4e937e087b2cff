"""Anthropic's SDK on /v1/messages, whole and streamed."""

from __future__ import annotations

from typing import Any

import anthropic
from common import MESSAGES, SECONDS, Json, Target, idle_engine, observed, report, targets

TOOLS: list[Any] = [
    {
        "name": "get_weather",
        "description": "The weather of a city",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]


def run(target: Target) -> Json:
    client = anthropic.Anthropic(base_url=target.url, api_key="unused", max_retries=0, timeout=SECONDS)
    common: Json = {"model": target.model, "messages": MESSAGES, "max_tokens": 16}

    def greedy(**options: Any) -> Json:
        return {**common, "extra_body": {"temperature": 0}, **options}

    def whole(**options: Any) -> Any:
        return client.messages.create(**greedy(**options)).model_dump()

    def stream(**options: Any) -> Any:
        with client.messages.stream(**greedy(**options)) as events:
            kinds = [event.type for event in events]
            last = events.get_final_message().model_dump()
        # Tokens that come together share an event.
        once = [kind for place, kind in enumerate(kinds) if kind not in kinds[:place]]
        return {"kinds": once, "message": last}

    def left() -> Json:
        with client.messages.stream(**greedy(max_tokens=target.long)) as events:
            next(iter(events.text_stream))
        return idle_engine(target)

    with client:
        return {
            "whole": observed(whole),
            "stream": observed(stream),
            "system": observed(lambda: whole(system="Be brief.")),
            "tools": observed(lambda: whole(tools=TOOLS)),
            "streamed tools": observed(lambda: stream(tools=TOOLS)),
            "count of tokens": observed(
                lambda: client.messages.count_tokens(model=target.model, messages=MESSAGES).model_dump()
            ),
            "bad value": observed(lambda: whole(extra_body={"top_p": 7})),
            "bad value, streamed": observed(lambda: stream(extra_body={"top_p": 7})),
            "too long": observed(lambda: whole(max_tokens=1_000_000)),
            "abort": observed(left),
        }


if __name__ == "__main__":
    report({target.name: run(target) for target in targets()})
