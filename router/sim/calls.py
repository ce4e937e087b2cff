"""Request bodies: what a client asked for, checked in SGLang's order and refused in its words."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from router.sim import errors
from router.sim.grammar import grammar_problem
from router.sim.prefix import block_hashes
from router.sim.text import detokenize, text_key, tokenize

_CHAT_TEMPLATE_TOKENS = 25
_ROLES = ("system", "user", "assistant", "tool", "function", "developer", "latest_reminder", "root")
Json = dict[str, Any]
Refusal = Callable[[str], errors.WireError]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: its length in tokens, the hashes of its blocks and a key of its whole text."""

    tokens: int
    blocks: tuple[int, ...]
    key: int


@dataclass(frozen=True, slots=True)
class Call:
    """One request to generate: `prompts` x `n` choices. `max_tokens` None: the server's default.

    `logprobs`: how many alternatives to name beside each token's own log-probability; None: say nothing.
    `problem`: why the scheduler will refuse its grammar, if it will.
    """

    model: str
    prompts: tuple[Prompt, ...]
    max_tokens: int | None = None
    n: int = 1
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    rid: str | None = None
    temperature: float = 1.0
    seed: int | None = None
    logprobs: int | None = None
    problem: str | None = None


def decode(route: str, content_type: str, body: bytes) -> Json:
    """The body as a JSON object. Raises WireError."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise errors.unsupported_media_type()
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.undecodable(route, body) from error
    if not isinstance(document, dict):
        if route == "/v1/chat/completions":
            raise errors.crashed()
        detail: Json = {
            "type": "model_attributes_type",
            "loc": ("body",),
            "msg": "Input should be a valid dictionary or object to extract fields from",
            "input": document,
        }
        raise errors.invalid(route, detail)
    return document


def chat(body: Json) -> Call:
    """A body of /v1/chat/completions. Raises WireError."""
    route = "/v1/chat/completions"
    if "messages" not in body:
        raise errors.missing(route, "messages", body | {"tool_choice": "none"})
    messages = body["messages"]
    if not isinstance(messages, list):
        raise _mistyped(route, "messages", messages, "list_type", "Input should be a valid list")
    common = _common(route, body)
    if not messages:
        raise errors.bad_request("Messages cannot be empty.")
    pieces = ["<|template|>"] * _CHAT_TEMPLATE_TOKENS
    pieces += _tool_pieces(route, body)
    for message in messages:
        pieces += _message_pieces(route, message)
    if body.get("logprobs"):
        common["logprobs"] = _whole(route, body, "top_logprobs", 0)
    return Call(prompts=(_prompt(pieces),), **common)


def completion(body: Json) -> Call:
    """A body of /v1/completions: `prompt` is a text, a list of texts, token ids or a list of those."""
    route = "/v1/completions"
    if "prompt" not in body:
        raise errors.missing(route, "prompt", body)
    common = _common(route, body)
    if body["prompt"] in ("", []):
        raise errors.bad_request("Prompt cannot be empty")
    common["logprobs"] = _whole(route, body, "logprobs", None)
    return Call(prompts=_prompts(route, "prompt", body["prompt"]), **common)


def generate(body: Json) -> Call:
    """A body of the native /generate. Raises WireError."""
    source = body.get("text", body.get("input_ids"))
    if source is None:
        raise errors.native_request("Either text, input_ids or input_embeds should be provided.")
    sampling = body.get("sampling_params") or {}
    if not isinstance(sampling, dict):
        raise _mistyped(
            "/generate", "sampling_params", sampling, "dict_type", "Input should be a valid dictionary"
        )
    names = ("temperature", "top_p", "n", "stop", "ignore_eos", "regex", "ebnf")
    fields = {key: sampling[key] for key in names if key in sampling}
    fields["max_tokens"] = sampling.get("max_new_tokens", 128)
    fields |= {key: body[key] for key in ("stream", "rid", "model") if key in body}
    common = _common("/generate", fields, errors.native_request)
    if body.get("return_logprob"):
        common["logprobs"] = _whole("/generate", body, "top_logprobs_num", 0)
    return Call(prompts=_prompts("/generate", "text", source), **common)


def messages(body: Json) -> Call:
    """A body of the Anthropic-shaped /v1/messages. Raises WireError."""
    turns = body.get("messages")
    if isinstance(turns, list) and body.get("system"):
        turns = [{"role": "system", "content": body["system"]}, *turns]
    renamed = {
        key: body[key] for key in ("model", "max_tokens", "temperature", "top_p", "stream") if key in body
    }
    return chat(renamed | {"messages": turns, "stop": body.get("stop_sequences")})


def _common(route: str, body: Json, refuse: Refusal = errors.bad_request) -> Json:
    temperature = _number(route, body, "temperature", 1.0)
    if temperature < 0 or not math.isfinite(temperature):
        raise refuse(f"temperature must be a non-negative finite number, got {temperature}.")
    top_p = _number(route, body, "top_p", 1.0)
    if not 0 < top_p <= 1:
        raise refuse(f"top_p must be in (0, 1], got {top_p}.")
    max_tokens = _whole(route, body, "max_completion_tokens", _whole(route, body, "max_tokens", None))
    if max_tokens is not None and max_tokens < 0:
        raise refuse(f"max_new_tokens must be at least 0, got {max_tokens}.")
    n = _whole(route, body, "n", 1)
    if not n and not body.get("stream"):
        raise errors.bad_request("range() arg 3 must not be zero", "BadRequest")
    if "stream" in body and body["stream"] is None:
        raise _mistyped(route, "stream", None, "bool_type", "Input should be a valid boolean")
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        text = "Input should be a valid dictionary or object to extract fields from"
        raise _mistyped(route, "stream_options", options, "model_attributes_type", text)
    stop = body.get("stop") or ()
    if not isinstance(stop, (str, list, tuple)):
        raise _mistyped(route, "stop", stop, "string_type", "Input should be a valid string")
    rid = body.get("rid")
    if isinstance(rid, list) and all(isinstance(item, str) for item in rid):
        raise errors.crashed() if route == "/generate" else errors.internal("unhashable type: 'list'")
    if rid is not None and not isinstance(rid, str):
        raise _mistyped(route, "rid", rid, "string_type", "Input should be a valid string")
    return {
        "model": str(body.get("model") or "default"),
        "max_tokens": max_tokens,
        "n": max(1, n or 0),
        "stream": bool(body.get("stream")),
        "include_usage": bool(options.get("include_usage")),
        "continuous_usage": bool(options.get("continuous_usage_stats")),
        "ignore_eos": bool(body.get("ignore_eos")),
        "stop": (stop,) if isinstance(stop, str) else tuple(map(str, stop)),
        "rid": rid,
        "temperature": temperature,
        "seed": _whole(route, body, "seed", None),
        "problem": grammar_problem(body),
    }


def _tool_pieces(route: str, body: Json) -> list[str]:
    tools = body.get("tools") or []
    if not isinstance(tools, list):
        raise _mistyped(route, "tools", tools, "list_type", "Input should be a valid list")
    for place, tool in enumerate(tools):
        if not isinstance(tool, dict) or not isinstance(tool.get("function"), dict):
            where = ("body", "tools", place, "function")
            detail = {"type": "missing", "loc": where, "msg": "Field required", "input": tool}
            raise errors.invalid(route, detail)
    if not tools and body.get("tool_choice") == "required":
        raise errors.bad_request("Tools cannot be empty if tool choice is set to required.")
    return tokenize(json.dumps(tools)) if tools else []


def _message_pieces(route: str, message: object) -> list[str]:
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(message, dict) or str(role).lower() not in _ROLES:
        text = f"Value error, 'role' must be one of {', '.join(map(repr, _ROLES))} (case-insensitive)."
        raise _mistyped(route, "messages", role, "value_error", text)
    content = message.get("content")
    pieces = ["<|im_start|>", str(role), "\n"]
    for part in content if isinstance(content, list) else [{"type": "text", "text": content or ""}]:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind != "text":
            raise errors.bad_request(
                f"Model only supports text input; received unsupported content type '{kind}'."
            )
        pieces += tokenize(str(part.get("text", "")))
    if message.get("tool_calls"):
        pieces += tokenize(json.dumps(message["tool_calls"]))
    return [*pieces, "<|im_end|>", "\n"]


def _prompts(route: str, field: str, source: object) -> tuple[Prompt, ...]:
    if isinstance(source, str):
        return (_prompt(tokenize(source)),)
    if isinstance(source, list) and source:
        if all(isinstance(item, int) for item in source):
            return (_prompt([str(item) for item in source]),)
        if all(isinstance(item, (str, list)) for item in source):
            return tuple(prompt for item in source for prompt in _prompts(route, field, item))
    raise _mistyped(route, field, source, "string_type", "Input should be a valid string")


def _prompt(pieces: Sequence[str]) -> Prompt:
    return Prompt(len(pieces), block_hashes(pieces), text_key(*pieces))


def _number(route: str, body: Json, field: str, default: float) -> float:
    value = body.get(field)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        text = "Input should be a valid number, unable to parse string as a number"
        raise _mistyped(route, field, value, "float_parsing", text)
    return float(value)


def _whole(route: str, body: Json, field: str, default: int | None) -> int | None:
    value = body.get(field)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        text = "Input should be a valid integer, unable to parse string as an integer"
        raise _mistyped(route, field, value, "int_parsing", text)
    return value


def _mistyped(route: str, field: str, value: object, kind: str, text: str) -> errors.WireError:
    return errors.invalid(route, {"type": kind, "loc": ("body", field), "msg": text, "input": value})


def detokenized(ids: object) -> str:
    """Text of a /detokenize body's `tokens`. Raises WireError."""
    if not isinstance(ids, list) or not all(isinstance(item, int) for item in ids):
        raise _mistyped("/v1/detokenize", "tokens", ids, "list_type", "Input should be a valid list")
    return detokenize(ids)
