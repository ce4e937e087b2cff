"""openai-python, its synchronous client."""

from __future__ import annotations

from functools import partial
from typing import Any

import openai
from common import (
    MESSAGES,
    SECONDS,
    Json,
    Target,
    idle_engine,
    merged,
    observed,
    openai_body,
    openai_cases,
    report,
    targets,
)


def run(target: Target) -> Json:
    with connected(target) as client:
        cases = openai_cases()
        seen = {name: observed(partial(ask, client, case, target)) for name, case in cases.items()}
    # On a connection of its own: an engine may close the last one behind an error.
    with connected(target) as client:
        return seen | {"abort": observed(lambda: abort(client, target))}


def connected(target: Target) -> openai.OpenAI:
    """A client that does not repeat what fails."""
    return openai.OpenAI(base_url=f"{target.url}/v1", api_key="unused", max_retries=0, timeout=SECONDS)


def ask(client: openai.OpenAI, case: Json, target: Target) -> Any:
    body, extra = openai_body(case, target.model)
    if case["call"] == "models":
        return [model.model_dump() for model in client.models.list()]
    if case["call"] == "model":
        return client.models.retrieve(case["id"]).model_dump()
    methods: Json = {
        "chat": client.chat.completions.create,
        "completions": client.completions.create,
        "embeddings": client.embeddings.create,
        "responses": client.responses.create,
    }
    answer = methods[case["call"]](**body, extra_body=extra or None)
    if body.get("stream"):
        return merged([chunk.model_dump() for chunk in answer])
    return answer.model_dump()


def abort(client: openai.OpenAI, target: Target) -> Json:
    stream = client.chat.completions.create(
        model=target.model,
        messages=MESSAGES,
        max_tokens=target.long,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    stream.close()
    return idle_engine(target)


if __name__ == "__main__":
    report({target.name: run(target) for target in targets()})
