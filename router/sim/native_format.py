"""Bytes of the native /generate route and of the Anthropic-shaped /v1/messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from router.sim.choice import DONE, Choice, usage
from router.sim.request import Delivery, Finish, SimRequest

_encode = msgspec.json.encode


class GenerateFormat:
    """/generate: text and output ids are cumulative, `meta_info` tells the request's story.

    `wall` turns the engine's clock into Unix time; `speculative_steps` is the draft's steps, 0 without
    speculation.
    """

    headers_at_once = True

    def __init__(self, wall: Callable[[float], float], speculative_steps: int, time_scale: float) -> None:
        self._wall = wall
        self._draft_steps = speculative_steps
        self._time_scale = time_scale

    def events(self, choice: Choice, delivery: Delivery) -> list[bytes]:
        choice.take(delivery)
        return [b"data: " + self._object(choice, delivery.finish) + b"\n\n"]

    def tail(self, choices: list[Choice]) -> list[bytes]:
        return [DONE]

    def error_events(self, message: str, code: int) -> list[bytes]:
        kind = "invalid_request_error" if code == 400 else "service_unavailable"
        error = {"message": message, "type": kind, "code": code, "retryable": code == 503}
        return [b"data: " + _encode({"error": error}) + b"\n\n", DONE]

    def body(self, choices: list[Choice]) -> bytes:
        objects = [self._object(choice, choice.request.finish) for choice in choices]
        return objects[0] if len(objects) == 1 else b"[" + b",".join(objects) + b"]"

    def _object(self, choice: Choice, finish: Finish | None) -> bytes:
        ids = b",".join(b"%d" % i for i in choice.script.ids[: choice.taken])
        meta = _encode(self._meta(choice, finish))
        return b'{"text":"%s","output_ids":[%s],"meta_info":%s}' % (bytes(choice.text), ids, meta)

    def _meta(self, choice: Choice, finish: Finish | None) -> dict[str, Any]:
        request = choice.request
        admitted, first = max(request.admitted_at, 0.0), max(request.first_token_at, 0.0)
        meta: dict[str, Any] = {
            "id": choice.rid,
            "finish_reason": _finish_reason(choice, finish),
            "prompt_tokens": choice.prompt.tokens,
            "weight_version": "default",
            "num_retractions": 0,
            "storage_prefetch_wait": 0.0,
            "storage_staging_wait": 0.0,
            "forward_entry_time": self._wall(admitted),
            "prefill_finished_time": self._wall(first),
            "queue_time": max(0.0, admitted - request.submitted_at) / self._time_scale,
            "reasoning_tokens": 0,
            "completion_tokens": choice.taken,
            "cached_tokens": request.cached_tokens,
        }
        if finish is not None:
            meta["weight_versions"] = [{"version": "default", "start": 0, "end": choice.taken}]
        meta["cached_tokens_details"] = {"device": request.cached_tokens, "host": 0}
        meta["dp_rank"] = None
        if finish is not None:
            meta |= self._times(request)
            if self._draft_steps:
                meta |= _speculation(request, self._draft_steps)
        return meta

    def _times(self, request: SimRequest) -> dict[str, Any]:
        elapsed = (request.finished_at - request.submitted_at) / self._time_scale
        decoding = (request.finished_at - request.first_token_at) / self._time_scale
        return {
            "e2e_latency": elapsed,
            "request_received_ts": self._wall(request.submitted_at),
            "first_token_latency": (max(request.first_token_at, 0.0) - request.submitted_at)
            / self._time_scale,
            "request_finished_ts": self._wall(request.finished_at),
            "decode_throughput": request.generated / decoding if decoding > 0 else 0.0,
            "response_sent_to_client_ts": self._wall(request.finished_at),
        }


def _finish_reason(choice: Choice, finish: Finish | None) -> dict[str, Any] | None:
    if finish is None:
        return None
    if finish is Finish.LENGTH:
        return {"type": "length", "length": choice.taken}
    if finish is Finish.STOP:
        return {"type": "stop", "matched": choice.script.matched_stop}
    return {"type": "abort", "message": "Abort by request", "status_code": None, "err_type": None}


def _speculation(request: SimRequest, draft_steps: int) -> dict[str, Any]:
    gained = max(0, request.generated - 1)
    accepted = max(0, gained - request.steps)
    proposed = request.steps * draft_steps
    return {
        "spec_accept_rate": accepted / proposed if proposed else 0.0,
        "spec_accept_length": gained / request.steps if request.steps else 0.0,
        "spec_num_correct_drafts": accepted,
        "spec_num_proposed_drafts": proposed,
        "spec_verify_ct": request.steps,
    }


class MessagesFormat:
    """/v1/messages: the shape that Anthropic clients read. Not from a recording."""

    headers_at_once = False

    def __init__(self, model: str) -> None:
        self._model = model
        self._started = False

    def events(self, choice: Choice, delivery: Delivery) -> list[bytes]:
        found = []
        if not self._started:
            self._started = True
            start = self._message(choice, [], None, output_tokens=0)
            found.append(_event("message_start", {"message": start}))
            block = {"index": 0, "content_block": {"type": "text", "text": ""}}
            found.append(_event("content_block_start", block))
        text = choice.take(delivery)
        if text:
            delta = {"type": "text_delta", "text": msgspec.Raw(b'"' + text + b'"')}
            found.append(_event("content_block_delta", {"index": 0, "delta": delta}))
        if delivery.finish is not None:
            found.append(_event("content_block_stop", {"index": 0}))
            ended = {"stop_reason": _stop_reason(delivery.finish), "stop_sequence": None}
            found.append(_event("message_delta", {"delta": ended, "usage": {"output_tokens": choice.taken}}))
        return found

    def tail(self, choices: list[Choice]) -> list[bytes]:
        return [_event("message_stop", {})]

    def error_events(self, message: str, code: int) -> list[bytes]:
        kind = "overloaded_error" if code == 503 else "invalid_request_error"
        return [_event("error", {"error": {"type": kind, "message": message}})]

    def body(self, choices: list[Choice]) -> bytes:
        choice = choices[0]
        content = [{"type": "text", "text": msgspec.Raw(b'"' + bytes(choice.text) + b'"')}]
        return _encode(self._message(choice, content, choice.request.finish, output_tokens=usage(choices)[1]))

    def _message(
        self, choice: Choice, content: list[dict[str, Any]], finish: Finish | None, *, output_tokens: int
    ) -> dict[str, Any]:
        return {
            "id": f"msg_{choice.rid}",
            "type": "message",
            "role": "assistant",
            "content": content,
            "model": self._model,
            "stop_reason": None if finish is None else _stop_reason(finish),
            "stop_sequence": None,
            "usage": {"input_tokens": choice.prompt.tokens, "output_tokens": output_tokens},
        }


def _stop_reason(finish: Finish) -> str:
    return "max_tokens" if finish is Finish.LENGTH else "end_turn"


def _event(name: str, fields: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), _encode({"type": name} | fields))
