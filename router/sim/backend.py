"""One simulated engine as its HTTP routes see it: admits calls, knows the live ones, keeps the figures."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

from router.core.words import Path
from router.sim.calls import Call, Prompt
from router.sim.choice import Choice
from router.sim.deadlines import Deadlines
from router.sim.driver import Driver
from router.sim.engine import QueueFull, SimEngine
from router.sim.errors import EngineError, LengthError, bad_request
from router.sim.histogram import Histogram, latency_buckets
from router.sim.params import SimParams
from router.sim.request import Delivery, Phase, SimRequest
from router.sim.text import part, text_key, write_script

Listener = Callable[[Choice, Delivery], None]


class Backend:
    """The engine of one path behind its HTTP surface.

    `draining` is what SIGTERM does to SGLang: the health routes say 503, running and new requests go on.
    `closing` is set when the server stops, so that nobody sleeps on. `hung`: the scheduler is dead and says
    nothing more, though HTTP goes on.
    """

    def __init__(self, path: Path, params: SimParams, driver: Driver) -> None:
        self.path = path
        self.params = params
        self.driver = driver
        self.draining = False
        self.hung = False
        self.closing = asyncio.Event()
        self.http_requests: Counter[tuple[str, str]] = Counter()
        self.http_responses: Counter[tuple[str, str, int]] = Counter()
        self.http_active: Counter[tuple[str, str]] = Counter()
        self.first_token = {streaming: Histogram(latency_buckets(0.001, 600)) for streaming in (False, True)}
        self.latency = {streaming: Histogram(latency_buckets(0.001, 1200)) for streaming in (False, True)}
        self.per_token = Histogram(latency_buckets(0.0005, 10))
        self.totals: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
        self._ids = Random(f"{params.seed}/{path.value}/ids")
        self._ordinal = 0
        self._live: dict[str, Choice] = {}
        self._deadlines = Deadlines(driver, params.waiting_timeout, params.running_timeout, self._give_up)

    @property
    def engine(self) -> SimEngine:
        """The pure engine."""
        return self.driver.gpu.engines[self.path]

    @property
    def reserved_tokens(self) -> int:
        """Tokens of the context that the draft needs; speculation refuses prompts that much shorter."""
        draft_steps = self.engine.speed.draft_steps
        return draft_steps + 1 if draft_steps else 0

    def start(self, call: Call, listener: Listener) -> list[Choice]:
        """Submit a call's choices. Raises LengthError, WireError (duplicate rid) or EngineError (queue, KV
        pool).
        """
        max_tokens = self._checked_max_tokens(call)
        self.check_rid(call)
        self._check_pool(call)
        self._check_grammar(call)
        choices: list[Choice] = []
        for prompt in call.prompts:
            for _ in range(call.n):
                choices.append(self._choice(call, prompt, len(choices), max_tokens))
        try:
            for choice in choices:
                self._submit(choice, call.stream, listener)
        except QueueFull:
            self.abandon(choices)
            raise EngineError("The request queue is full.", 503) from None
        return choices

    def abandon(self, choices: list[Choice]) -> None:
        """End what is left of a call whose client is gone."""
        for choice in choices:
            if choice.request.phase is not Phase.DONE:
                self.driver.abort(self.path, choice.request)

    def abort(self, rid: str | None) -> None:
        """End the live request of that id, and as SGLang does all whose ids begin with it; None: all."""
        if rid is not None and rid not in self._live:
            return
        for live, choice in list(self._live.items()):
            if rid is None or live.startswith(rid):
                self.driver.abort(self.path, choice.request)

    def check_rid(self, call: Call) -> None:
        """Raises WireError for an id that is in flight."""
        if call.rid is not None and call.rid in self._live:
            raise bad_request(f"Duplicate request ID detected: {call.rid}")

    def _give_up(self, request: SimRequest, message: str) -> None:
        choice = self._live[request.rid]
        begun = request.generated > 0
        counts = {"prompt": request.prompt_tokens, "completion": request.generated} if begun else {}
        choice.failure = EngineError(message, 503, **counts)
        self.driver.abort(self.path, request)

    def _check_grammar(self, call: Call) -> None:
        if call.problem is not None:
            raise EngineError(call.problem, 400, prompt=call.prompts[0].tokens, completion=1)

    def _check_pool(self, call: Call) -> None:
        limit = self.params.kv_tokens - 6
        longest = max(prompt.tokens for prompt in call.prompts)
        if longest > limit:
            raise EngineError(
                f"Input length ({longest} tokens) exceeds the maximum allowed length ({limit} tokens). "
                "Use a shorter input or enable --allow-auto-truncate.",
                400,
                prompt=1,
                completion=1,
            )

    def _checked_max_tokens(self, call: Call) -> int:
        context, reserved = self.params.context_length, self.reserved_tokens
        if call.max_tokens is not None and call.max_tokens > context:
            text = f"max_completion_tokens is too large: {call.max_tokens}."
            raise LengthError(f"{text}This model supports at most {context} completion tokens.")
        longest = max(prompt.tokens for prompt in call.prompts)
        if longest + reserved >= context:
            raise LengthError(
                f"The input ({longest} tokens) is longer than the model's context length ({context} tokens)."
            )
        if call.max_tokens is None:
            return min(self.params.default_max_tokens, context - longest - reserved)
        if longest + call.max_tokens + reserved > context:
            total = longest + call.max_tokens + reserved
            raise LengthError(
                f"Requested token count exceeds the model's maximum context length of {context} tokens. "
                f"You requested a total of {total} tokens: {longest} tokens from the input messages and "
                f"{call.max_tokens} tokens for the completion. Please reduce the number of tokens in the "
                "input messages or the completion to fit within the limit."
            )
        return call.max_tokens

    def _choice(self, call: Call, prompt: Prompt, index: int, max_tokens: int) -> Choice:
        self._ordinal += 1
        single = len(call.prompts) * call.n == 1
        rid = call.rid if call.rid is not None and single else f"{self._ids.getrandbits(128):032x}"
        # Greedy and seeded answers don't depend on the engine: both of a pair give the same one.
        own = (
            (call.seed, index)
            if call.seed is not None
            else ("greedy",)
            if call.temperature == 0
            else (self._ordinal,)
        )
        natural = None if call.ignore_eos else self.params.natural_length
        key = text_key(self.params.seed, prompt.key, *own)
        script = write_script(key, max_tokens, natural=natural, stop=call.stop)
        if self.params.diverge_at is not None and call.temperature == 0:
            other = self.path is Path.SPECULATIVE
            script = part(script, self.params.diverge_at, self.params.diverge_gap, other=other)
        request = SimRequest(rid, prompt.tokens, len(script.ids), script.finish, prompt.blocks)
        return Choice(rid, index, prompt, script, request)

    def _submit(self, choice: Choice, streaming: bool, listener: Listener) -> None:
        def sink(delivery: Delivery) -> None:
            if delivery.finish is not None:
                self._live.pop(choice.rid, None)
                self._deadlines.forget(choice.request)
                self._observe(delivery.request, streaming)
            if not self.hung:
                listener(choice, delivery)

        self.driver.submit(self.path, choice.request, sink)
        self._live[choice.rid] = choice
        self._deadlines.watch(choice.request)

    def _observe(self, request: SimRequest, streaming: bool) -> None:
        scale = self.driver.time_scale
        totals = self.totals[streaming]
        totals["requests"] += 1
        totals["prompt_tokens"] += request.prompt_tokens
        totals["generation_tokens"] += request.generated
        if request.first_token_at < 0:
            return
        self.first_token[streaming].observe((request.first_token_at - request.submitted_at) / scale)
        self.latency[streaming].observe((request.finished_at - request.submitted_at) / scale)
        if request.generated > 1:
            decoding = (request.finished_at - request.first_token_at) / scale
            self.per_token.observe(decoding / (request.generated - 1), request.generated - 1)
