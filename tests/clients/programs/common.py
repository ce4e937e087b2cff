"""What every client program here does alike: run its cases against each target, print what it saw as JSON.

The first argument is JSON: `{"model", "long", "targets": [{"name", "url", "engine"}]}`. `url` is what the
client is given, `engine` is the engine that answers there, directly or behind a router. `long` is a number of
tokens that takes the engine much longer than noticing that a client left.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
PROMPT = "hello world"
MESSAGES: list[Any] = [{"role": "user", "content": PROMPT}]
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "maxLength": 8}},
                "required": ["city"],
            },
        },
    }
]
SECONDS = 90.0
ENGINE_SECONDS = 20.0
_VARYING = {"id", "created", "created_at", "completed_at", "e2e_latency", "system_fingerprint"}


@dataclass(frozen=True, slots=True)
class Target:
    """Where a client goes, and who answers there."""

    name: str
    url: str
    engine: str
    model: str
    long: int


def targets() -> list[Target]:
    """What the command line says."""
    said = json.loads(sys.argv[1])
    return [Target(**target, model=said["model"], long=said["long"]) for target in said["targets"]]


def openai_cases() -> Mapping[str, Json]:
    """The requests that all OpenAI clients make, by name; `extra` is what the SDK has no parameter for."""
    cases: Mapping[str, Json] = json.loads((Path(__file__).parent.parent / "cases.json").read_text())
    return cases


def openai_body(case: Json, model: str) -> tuple[Json, Json]:
    """Parameters of the SDK's method, and what goes into the body beside them."""
    body: Json = {"model": model, **case.get("body", {})}
    extra: Json = dict(case.get("extra", {}))
    if case["call"] == "chat":
        body |= {"messages": MESSAGES, "temperature": 0}
    if case["call"] == "completions":
        body["temperature"] = 0
    if case["call"] in ("chat", "completions"):
        extra["ignore_eos"] = True
    if case.get("tools"):
        body["tools"] = TOOLS
    return body, extra


def masked(value: Any) -> Any:
    """`value` without what differs from one answer to the next."""
    if isinstance(value, dict):
        return {key: masked(inner) for key, inner in value.items() if key not in _VARYING}
    if isinstance(value, list):
        return [masked(inner) for inner in value]
    return value


def merged(chunks: list[Json]) -> Json:
    """What a stream said, however its text was cut: tokens that come together share a chunk."""
    said: Json = {"texts": {}, "ends": {}, "roles": {}, "tools": {}, "usage": None, "keys": []}
    keys = set()
    for chunk in chunks:
        keys.add(tuple(sorted(chunk)))
        said["usage"] = chunk.get("usage") or said["usage"]
        for choice in chunk.get("choices", []):
            index = str(choice["index"])
            delta = choice.get("delta") or {"content": choice.get("text")}
            said["texts"][index] = said["texts"].get(index, "") + (delta.get("content") or "")
            said["roles"].setdefault(index, delta.get("role"))
            said["ends"][index] = choice.get("finish_reason") or said["ends"].get(index)
            for call in delta.get("tool_calls") or []:
                heard = said["tools"].setdefault(f"{index}.{call['index']}", {"name": "", "arguments": ""})
                for part in heard:
                    heard[part] += (call.get("function") or {}).get(part) or ""
    said["keys"] = sorted(keys)
    return said


def failure(error: Exception) -> Json:
    """What an application sees of an error."""
    names = ("status_code", "code", "param", "type", "body")
    seen = {name: masked(getattr(error, name, None)) for name in names}
    return {"error": type(error).__name__, "message": str(error), **seen}


def observed(step: Callable[[], Any]) -> Any:
    """What the step returns, or how it fails."""
    try:
        return masked(step())
    except Exception as error:  # whatever an application would see
        return failure(error)


def idle_engine(target: Target) -> Json:
    """Whether the engine lets go of what was aborted, seen at the engine itself."""
    return {"idle": _held(target, lambda count: count == 0)}


def busy_engine(target: Target) -> None:
    """Wait until the engine is at work."""
    if not _held(target, lambda count: count > 0):
        raise TimeoutError("the engine was never asked")


def _held(target: Target, enough: Callable[[int], bool]) -> bool:
    deadline = time.monotonic() + ENGINE_SECONDS
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"{target.engine}/v1/loads?include=core", timeout=SECONDS) as answer:
            load = json.load(answer)["loads"][0]
        if enough(load["num_running_reqs"] + load["num_waiting_reqs"]):
            return True
        time.sleep(0.1)
    return False


def report(seen: Mapping[str, Mapping[str, Any]]) -> None:
    """Print observations by target and case."""
    json.dump(seen, sys.stdout, default=str)
