"""Bytes of the native /generate route and of the Anthropic-shaped /v1/messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from router.sim.calls import Call
from router.sim.choice import DONE, Choice, usage
from router.sim.errors import EngineError, LengthError
from router.sim.logprobs import native_logprobs
from router.sim.request import Delivery, Finish, SimRequest

_encode = msgspec.json.encode


class GenerateFormat:
    """/generate: text and output ids are cumulative, `meta_info` tells the request's story.

    `wall` turns the engine's clock into Unix time; `speculative_steps` is the draft's steps, 0 without
    speculation.
    """

    headers_at_once = True

    def __init__(
        self, call: Call, wall: Callable[[float], float], speculative_steps: int, time_scale: float
    ) -> None:
        self._call = call
        self._wall = wall
        self._draft_steps = speculative_steps
        self._time_scale = time_scale

    def events(self, choice: Choice, delivery: Delivery) -> list[bytes]:
        choice.take(delivery)
        shown = self._object(choice, delivery.finish)
        if self._call.n * len(self._call.prompts) > 1:
            shown = shown[:-1] + b',"index":%d}' % choice.index
        return [b"data: " + shown + b"\n\n"]

    def tail(self, choices: list[Choice]) -> list[bytes]:
        return [DONE]

    def error_events(self, error: EngineError, choice: Choice | None = None) -> list[bytes]:
        if isinstance(error, LengthError):
            kind = "invalid_request_error"
            said = {"message": error.message, "type": kind, "code": error.code, "retryable": False}
            return [b"data: " + _encode({"error": said}) + b"\n\n", DONE]
        # What the scheduler refuses or gives up looks like an answer that was aborted.
        return [b"data: " + self._aborted(error, choice) + b"\n\n", DONE]

    def _aborted(self, error: EngineError, choice: Choice | None) -> bytes:
        if choice is not None and choice.taken:
            reason = {"type": "abort", "message": error.message, "status_code": error.code, "err_type": None}
            meta = self._meta(choice, Finish.ABORT) | {"finish_reason": reason}
            return self._shown(choice, meta)
        count = error.completion
        meta = {
            "id": "" if choice is None else choice.rid,
            "finish_reason": {"type": "abort", "status_code": error.code, "message": error.message},
            "weight_version": "default",
            "weight_versions": [{"version": "default", "start": 0, "end": count}],
            "completion_tokens": count,
        }
        return _encode({"text": "", "output_ids": [0] * count, "meta_info": meta})

    def body(self, choices: list[Choice]) -> bytes:
        objects = [self._object(choice, choice.request.finish) for choice in choices]
        return objects[0] if len(objects) == 1 else b"[" + b",".join(objects) + b"]"

    def _object(self, choice: Choice, finish: Finish | None) -> bytes:
        return self._shown(choice, self._meta(choice, finish))

    def _shown(self, choice: Choice, meta: dict[str, Any]) -> bytes:
        ids = b",".join(b"%d" % i for i in choice.script.ids[: choice.taken])
        return b'{"text":"%s","output_ids":[%s],"meta_info":%s}' % (bytes(choice.text), ids, _encode(meta))

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
        }
        if self._call.logprobs is not None:
            meta |= native_logprobs(choice, self._call.logprobs)
        meta |= {
            "reasoning_tokens": 0,
            "completion_tokens": choice.taken,
            "cached_tokens": request.cached_tokens,
        }
        if finish is not None:
            meta["weight_versions"] = [{"version": "default", "start": 0, "end": choice.taken}]
        cached = request.cached_tokens
        meta["cached_tokens_details"] = {"device": cached, "host": 0} if cached else None
        meta["dp_rank"] = None
        if finish is not None:
            meta["e2e_latency"] = (request.finished_at - request.submitted_at) / self._time_scale
            if self._draft_steps:
                meta |= _speculation(request, self._draft_steps)
            meta |= self._times(request)
        return meta

    def _times(self, request: SimRequest) -> dict[str, Any]:
        decoding = (request.finished_at - request.first_token_at) / self._time_scale
        return {
            "request_received_ts": self._wall(request.submitted_at),
            "first_token_latency": (max(request.first_token_at, 0.0) - request.submitted_at)
            / self._time_scale,
            "api_server_dispatch_finish_ts": self._wall(request.submitted_at),
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
    return {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}


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
        "spec_correct_drafts_histogram": request.accepted_drafts,
    }


class MessagesFormat:
    """/v1/messages: the shape that Anthropic clients read."""

    headers_at_once = False

    def __init__(self, model: str) -> None:
        self._model = model
        self._started = False

    def events(self, choice: Choice, delivery: Delivery) -> list[bytes]:
        found = []
        if not self._started:
            self._started = True
            start = self._opening(choice.rid, choice.prompt.tokens)
            found.append(_event("message_start", {"message": start}))
            block = {"index": 0, "content_block": {"type": "text", "text": ""}}
            found.append(_event("content_block_start", block))
        text = choice.take(delivery)
        if text:
            delta = {"type": "text_delta", "text": msgspec.Raw(b'"' + text + b'"')}
            found.append(_event("content_block_delta", {"index": 0, "delta": delta}))
        if delivery.finish is not None:
            found.append(_event("content_block_stop", {"index": 0}))
            ended = {"stop_reason": _stop_reason(delivery.finish)}
            found.append(_event("message_delta", {"delta": ended, "usage": {"output_tokens": choice.taken}}))
        return found

    def tail(self, choices: list[Choice]) -> list[bytes]:
        return [_event("message_stop", {})]

    def error_events(self, error: EngineError, choice: Choice | None = None) -> list[bytes]:
        kind = "overloaded_error" if error.code == 503 else "invalid_request_error"
        failed = _event("error", {"error": {"type": kind, "message": error.message}})
        opened = [] if self._started else [_event("message_start", {"message": self._opening("", 0)})]
        return [*opened, failed, *self.tail([])]

    def body(self, choices: list[Choice]) -> bytes:
        choice = choices[0]
        content = [{"type": "text", "text": msgspec.Raw(b'"' + bytes(choice.text) + b'"')}]
        counts = {"input_tokens": choice.prompt.tokens, "output_tokens": usage(choices)[1]}
        ended = {"stop_reason": _stop_reason(choice.request.finish), "usage": counts}
        return _encode(self._head(choice.rid, content) | ended)

    def _opening(self, rid: str, prompt_tokens: int) -> dict[str, Any]:
        return self._head(rid, []) | {"usage": {"input_tokens": prompt_tokens, "output_tokens": 0}}

    def _head(self, rid: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"msg_{rid}",
            "type": "message",
            "role": "assistant",
            "content": content,
            "model": self._model,
        }


def _stop_reason(finish: Finish) -> str:
    return "max_tokens" if finish is Finish.LENGTH else "end_turn"


def _event(name: str, fields: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), _encode({"type": name} | fields))
