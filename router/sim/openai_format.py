"""The OpenAI routes' bytes, field by field in the order that SGLang writes them."""

from __future__ import annotations

import msgspec

from router.sim import errors
from router.sim.calls import Call
from router.sim.choice import DONE, Choice, metadata_json, usage, usage_json
from router.sim.errors import EngineError
from router.sim.logprobs import chat_logprobs, completion_logprobs
from router.sim.request import Delivery

_encode = msgspec.json.encode


class ChatFormat:
    """/v1/chat/completions."""

    headers_at_once = False

    def __init__(self, call: Call, created: int) -> None:
        self._call = call
        self._model = _encode(call.model)
        self._created = created
        self._heads: dict[int, bytes] = {}
        self._ended: list[Choice] = []
        self._last_rid = call.rid or ""

    def events(self, choice: Choice, delivery: Delivery) -> list[bytes]:
        head = self._heads.get(choice.index)
        found = []
        if head is None:
            head = self._heads[choice.index] = self._head(choice.rid, choice.index)
            found.append(head + b',"role":"assistant","content":""' + _OPEN_END + b"}\n\n")
        start = choice.taken
        text = choice.take(delivery)
        if text:
            usage_part = b""
            logprobs = b"null"
            if self._call.logprobs is not None:
                logprobs = chat_logprobs(choice, start, self._call.logprobs)
            if self._call.continuous_usage:
                usage_part = b',"usage":' + usage_json(choice.prompt.tokens, choice.taken)
            end = _OPEN_END if logprobs == b"null" else _open_end(logprobs)
            found.append(b"".join((head, b',"content":"', text, b'"', end, usage_part, b"}\n\n")))
        self._last_rid = choice.rid
        if delivery.finish is not None:
            self._ended.append(choice)
        return found

    def tail(self, choices: list[Choice]) -> list[bytes]:
        # SGLang says how each choice ended once all have, under the id of whichever spoke last.
        rid = self._last_rid
        events = [self._head(rid, choice.index) + _finish_part(choice) for choice in self._ended]
        if self._call.include_usage:
            events.append(self._usage_event(rid, *usage(choices)))
        return [*events, DONE]

    def error_events(self, error: EngineError, choice: Choice | None = None) -> list[bytes]:
        events = [errors.stream_event(error.message, error.code)]
        if self._call.include_usage:
            events.append(self._usage_event(self._last_rid, error.prompt, error.completion))
        return [*events, DONE]

    def body(self, choices: list[Choice]) -> bytes:
        prompt, completion = usage(choices)
        return b"".join(
            (
                b'{"id":%s,"object":"chat.completion","created":%d,'
                % (_encode(choices[0].rid), self._created),
                b'"model":%s,"choices":[%s],' % (self._model, b",".join(map(self._choice, choices))),
                b'"usage":%s,"metadata":%s}' % (usage_json(prompt, completion), metadata_json(choices)),
            )
        )

    def _choice(self, choice: Choice) -> bytes:
        top = self._call.logprobs
        logprobs = b"null" if top is None else chat_logprobs(choice, 0, top)
        return (
            b'{"index":%d,"message":{"role":"assistant","content":"%s","reasoning_content":null},'
            b'"logprobs":%s,"finish_reason":%s,"matched_stop":%s}'
        ) % (
            choice.index,
            bytes(choice.text),
            logprobs,
            _encode(choice.request.finish),
            _encode(choice.matched_stop),
        )

    def _head(self, rid: str, index: int) -> bytes:
        return (
            b'data: {"id":%s,"object":"chat.completion.chunk","created":%d,"model":%s,'
            b'"choices":[{"index":%d,"delta":{"reasoning_content":null'
        ) % (_encode(rid), self._created, self._model, index)

    def _usage_event(self, rid: str, prompt: int, completion: int) -> bytes:
        return (
            b'data: {"id":%s,"object":"chat.completion.chunk","created":%d,"model":%s,'
            b'"choices":[],"usage":%s}\n\n'
        ) % (_encode(rid), self._created, self._model, usage_json(prompt, completion))


def _open_end(logprobs: bytes) -> bytes:
    return b'},"logprobs":%s,"finish_reason":null,"matched_stop":null}]' % logprobs


_OPEN_END = _open_end(b"null")


def _finish_part(choice: Choice) -> bytes:
    return b'},"logprobs":null,"finish_reason":%s,"matched_stop":%s}]}\n\n' % (
        _encode(choice.request.finish),
        _encode(choice.matched_stop),
    )


class CompletionFormat:
    """/v1/completions."""

    headers_at_once = False

    def __init__(self, call: Call, created: int) -> None:
        self._call = call
        self._model = _encode(call.model)
        self._created = created

    def events(self, choice: Choice, delivery: Delivery) -> list[bytes]:
        start = choice.taken
        text = choice.take(delivery)
        counts = b"null"
        if self._call.continuous_usage:
            counts = usage_json(choice.prompt.tokens, choice.taken)
        matched = choice.matched_stop if delivery.finish is not None else None
        return [
            b"".join(
                (
                    self._head(choice.rid),
                    b'[{"index":%d,"text":"%s",' % (choice.index, text),
                    b'"logprobs":%s,' % self._logprobs(choice, start),
                    b'"finish_reason":%s,"matched_stop":%s}]' % (_encode(delivery.finish), _encode(matched)),
                    b',"usage":%s}\n\n' % counts,
                )
            )
        ]

    def tail(self, choices: list[Choice]) -> list[bytes]:
        if not self._call.include_usage:
            return [DONE]
        counts = _short_usage(*usage(choices))
        return [self._head(choices[0].rid) + b'[],"usage":%s}\n\n' % counts, DONE]

    def error_events(self, error: EngineError, choice: Choice | None = None) -> list[bytes]:
        events = [errors.stream_event(error.message, error.code)]
        if self._call.include_usage:
            counts = _short_usage(error.prompt, error.completion)
            events.append(self._head("") + b'[],"usage":%s}\n\n' % counts)
        return [*events, DONE]

    def body(self, choices: list[Choice]) -> bytes:
        prompt, completion = usage(choices)
        return b"".join(
            (
                b'{"id":%s,"object":"text_completion","created":%d,'
                % (_encode(choices[0].rid), self._created),
                b'"model":%s,"choices":[%s],' % (self._model, b",".join(map(self._choice, choices))),
                b'"usage":%s,"metadata":%s}' % (usage_json(prompt, completion), metadata_json(choices)),
            )
        )

    def _choice(self, choice: Choice) -> bytes:
        return b'{"index":%d,"text":"%s","logprobs":%s,"finish_reason":%s,"matched_stop":%s}' % (
            choice.index,
            bytes(choice.text),
            self._logprobs(choice, 0),
            _encode(choice.request.finish),
            _encode(choice.matched_stop),
        )

    def _logprobs(self, choice: Choice, start: int) -> bytes:
        top = self._call.logprobs
        return b"null" if top is None else completion_logprobs(choice, start, top)

    def _head(self, rid: str) -> bytes:
        return b'data: {"id":%s,"object":"text_completion","created":%d,"model":%s,"choices":' % (
            _encode(rid),
            self._created,
            self._model,
        )


def _short_usage(prompt: int, completion: int) -> bytes:
    return b'{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"reasoning_tokens":0}' % (
        prompt,
        prompt + completion,
        completion,
    )
