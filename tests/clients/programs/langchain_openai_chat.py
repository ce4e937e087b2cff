"""langchain-openai: invoke and stream, tools, errors, a stream that is left."""

from __future__ import annotations

from typing import Any

from common import PROMPT, SECONDS, TOOLS, Json, Target, idle_engine, observed, report, targets
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_openai import ChatOpenAI


def run(target: Target) -> Json:
    def chat(**options: Any) -> ChatOpenAI:
        settings: Json = {"temperature": 0, "max_tokens": 16, "extra_body": {"ignore_eos": True}}
        return ChatOpenAI(
            model=target.model,
            base_url=f"{target.url}/v1",
            api_key="unused",  # type: ignore[arg-type]
            max_retries=0,
            timeout=SECONDS,
            **settings | options,
        )

    def left() -> Json:
        stream = chat(max_tokens=target.long).stream(PROMPT)
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        return idle_engine(target)

    return {
        "whole": observed(lambda: said(chat().invoke(PROMPT))),
        "stream": observed(lambda: together(chat().stream(PROMPT))),
        "stream with usage": observed(lambda: together(chat(stream_usage=True).stream(PROMPT))),
        "two choices": observed(lambda: choices(chat(n=2))),
        "tools": observed(lambda: said(chat().bind_tools(TOOLS).invoke(PROMPT))),
        "streamed tools": observed(lambda: together(chat().bind_tools(TOOLS).stream(PROMPT))),
        "bad value": observed(lambda: said(chat(top_p=7).invoke(PROMPT))),
        "bad value, streamed": observed(lambda: together(chat(top_p=7).stream(PROMPT))),
        "error as first event": observed(lambda: together(chat(extra_body={"regex": "(["}).stream(PROMPT))),
        "abort": observed(left),
    }


def choices(chat: ChatOpenAI) -> list[str]:
    """The texts of all choices, of which `invoke` shows the first."""
    (found,) = chat.generate([[HumanMessage(PROMPT)]]).generations
    return [choice.text for choice in found]


def said(message: BaseMessage) -> Json:
    """Without the id and what the SDK derives from it."""
    shown = message.model_dump()
    return {key: shown.get(key) for key in ("content", "tool_calls", "usage_metadata", "response_metadata")}


def together(stream: Any) -> Json:
    chunks = list(stream)
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    return said(whole)


if __name__ == "__main__":
    report({target.name: run(target) for target in targets()})
