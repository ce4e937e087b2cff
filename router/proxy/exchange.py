"""The life of one request: receive, admit, decide, attempt, relay, account.

Whatever happens on the way ends in exactly one place: a `Failure` is told to the client by the means
that are left, the lease closes with one outcome, and one record goes to the observer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Any

from router.core.admission import whole_seconds
from router.core.affinity import ResponseScanner
from router.core.events import Decision, RequestRecord
from router.core.failure import Effect, Failure, Kind, Replay
from router.core.headers import Headers, response_headers
from router.core.ledger import Lease
from router.core.rid import RID_ROUTES, splice_rid
from router.core.routes import Route
from router.core.scan import Scanner, Usage
from router.core.words import Outcome
from router.proxy.attempt import Attempt, Progress, event_failure, route_headers
from router.proxy.body import HeldBody
from router.proxy.client import Client
from router.proxy.queue import Turn
from router.proxy.settings import Services
from router.proxy.watchdog import Watchdog
from router.proxy.wish import RESPONSES, read_wish

# How long a client may take to accept an error; it has been sent nothing yet, or is being cut off.
TELL_LIMIT = 5.0

_log = logging.getLogger("router.proxy")


class Exchange:
    """One request on a proxied route."""

    def __init__(self, services: Services, client: Client, route: Route, target: bytes) -> None:
        self._services = services
        self._settings = services.settings
        self._client = client
        self._route = route
        self._target = target
        self._loop = client.loop
        self._began = self._loop.time()
        self._watchdog = Watchdog(
            self._loop, services.rounds, self._settings, client, self._began, self._on_flow
        )
        self._progress = Progress()
        self._decision: Decision | None = None
        self._unreported: Decision | None = None
        self._suspect: Decision | None = None  # answered with a 5xx; the other path's word is awaited
        self._failure: Failure | None = None
        self._step: asyncio.Task[Any] | None = None
        self._ended: Failure | None = None
        self._queued_for = 0.0
        self._rid: bytes | None = None
        self._fields: Mapping[str, object] = {}
        tracer = services.tracer
        self._trace = tracer.begin(client.headers, self._began) if tracer is not None else None

    async def run(self) -> None:
        """Serve the request to its end."""
        services = self._services
        outcome = Outcome.FAILED
        try:
            with HeldBody(services.budget) as body:
                await self._guard(self._receive(body))
                if self._failure is None:
                    with services.pair.ledger.open() as lease:
                        await self._guard(self._serve(body, lease))
                        outcome = self._failure.row.outcome if self._failure else Outcome.OK
                        lease.settle(outcome)
                else:
                    outcome = self._failure.row.outcome
        finally:
            if self._failure is not None and self._failure.row.rejection is not None:
                services.observer.on_rejected(self._failure.row.rejection)
            record = self._record(outcome)
            services.observer.on_finished(record)
            if self._trace is not None:
                self._trace.end(record)

    def end(self, failure: Failure) -> None:
        """End the request from outside, wherever it is, or cut a client that is being told of a failure."""
        if self._step is None:
            self._client.reset()
        elif self._ended is None:
            self._ended = failure
            self._step.cancel()

    async def _guard(self, step: Coroutine[Any, Any, None]) -> None:
        """Run a step; whatever it raises becomes this request's one failure, told to the client."""
        client = self._client
        task = self._step = asyncio.current_task(self._loop)
        try:
            await step
        except Failure as failure:
            self._failure = failure
        except asyncio.CancelledError:
            if task is None or (client.gone is None and self._ended is None):
                raise
            task.uncancel()
            self._abort()
            self._failure = self._left(client.gone) if client.gone is not None else self._ended
        except Exception:
            _log.exception("a request failed inside the router")
            self._failure = Failure(Kind.INTERNAL)
        finally:
            self._step = None
            client.unwatch()
            self._watchdog.stop()
            self._report_last()
        if self._failure is not None and client.gone is None:
            await self._tell(self._failure)

    # ---- the steps

    async def _receive(self, body: HeldBody) -> None:
        settings = self._settings
        if not settings.keys.accept(self._client.headers):
            raise Failure(Kind.AUTH)
        await body.read(
            self._client, limit=settings.max_body, stall=settings.client_body, wait=settings.queue_timeout
        )
        seen = settings.peeker.peek(body.data)
        self._fields = seen.fields
        if settings.inject_rid and self._route.label in RID_ROUTES and not seen.has_rid:
            self._rid = self._services.new_id()
            body.data = splice_rid(body.data, self._rid)

    async def _serve(self, body: HeldBody, lease: Lease) -> None:
        services = self._services
        self._client.watch()
        wish = read_wish(services, self._settings, self._route, self._client, self._fields)
        turn = Turn(services.door, services.pair, lease, wish)
        arrived = self._loop.time()  # whole: a slow upload is no wait in the queue
        try:
            if self._trace is None:
                decision = await turn.take(self._settings.queue_timeout)
            else:
                with self._trace.queue():
                    decision = await turn.take(self._settings.queue_timeout)
        finally:
            self._unreported = turn.decision
            self._queued_for = self._loop.time() - arrived
        # Where only one path will do, the other is no second chance.
        retries = 1 if self._settings.retry_other and not (wish and wish.only) else 0
        await self._attempts(decision, body, lease, retries)

    async def _attempts(self, decision: Decision, body: HeldBody, lease: Lease, retries: int) -> None:
        """Try the decided engine; then, as the failure table allows, a fresh connection or the other path."""
        fresh = False
        while True:
            self._decision = self._unreported = decision
            replayable = retries > 0 and self._services.pair.can_retry(decision.path)
            try:
                await self._attempt(decision, body, fresh=fresh, replayable=replayable)
                return
            except Failure as failure:
                if self._client.committed or failure.row.replay is Replay.NO:
                    raise
                fresh = failure.row.replay is Replay.SAME
                if fresh:
                    self._services.observer.on_retry(decision.path, decision.path, failure.kind)
                else:
                    second = self._second(decision, failure) if retries else None
                    if second is None:
                        await self._pass_held_answer()
                        raise
                    retries -= 1
                    lease.move(second.path)
                    decision = second

    async def _attempt(self, decision: Decision, body: HeldBody, *, fresh: bool, replayable: bool) -> None:
        link = self._services.engines[decision.path]
        attempt = Attempt(
            link, decision, self._client, self._watchdog, self._progress, replayable, body, self._scanner
        )
        if self._trace is None:
            self._report(await attempt.run(self._target, fresh=fresh))
            return
        with self._trace.attempt(decision, fresh=fresh) as context:
            self._report(await attempt.run(self._target, fresh=fresh, context=context))

    def _scanner(self, decision: Decision, streamed: bool) -> Scanner:
        """What looks on while the answer passes, which it is about to."""
        if self._trace is not None:
            self._trace.relay(self._progress.first_byte_at)
        if self._client.status is not None and self._client.status < 500:
            self._report_suspect(Effect.FAILURE)
        if self._route.label != RESPONSES:
            return Scanner(streamed=streamed)
        affinity = self._services.affinity
        return ResponseScanner(streamed=streamed, on_id=lambda found: affinity.learn(found, decision.path))

    def _second(self, first: Decision, failure: Failure) -> Decision | None:
        """Where to try again after `first` failed, if anywhere."""
        if failure.kind is Kind.STATUS_5XX:
            self._suspect, self._unreported = self._unreported, None
        else:
            self._report(failure.row.effect)
        second = self._services.pair.decide_retry(first.path)
        if second is not None:
            self._services.observer.on_retry(first.path, second.path, failure.kind)
        return second

    async def _pass_held_answer(self) -> None:
        """No path gave an answer but the first engine's refusal: it says more than an error of ours would."""
        held, decision = self._progress.held, self._progress.held_by
        if held is not None and decision is not None:
            headers = response_headers(held.headers, keep_length=False)
            headers.append((b"content-length", str(len(held.body)).encode()))
            self._client.start(held.status, headers + route_headers(decision))
            await self._client.finish(held.body)

    def _left(self, why: Kind) -> Failure | None:
        """What ended a request whose client is gone; None: it had all of its answer.

        SDKs leave on an error event, and on `[DONE]`, ahead of the stream's last chunk.
        """
        scanner = self._progress.scanner
        code = scanner.error_code if scanner else None
        if code is not None:
            return event_failure(code)
        if scanner is not None and scanner.done and why is Kind.CLIENT_GONE:
            self._report(Effect.SUCCESS)
            return None
        return Failure(why)

    def _abort(self) -> None:
        """The client left: tell the engine by name, where it has been given one and has the request."""
        if self._rid is not None and self._watchdog.sent and self._decision is not None:
            self._services.aborter.abort(self._services.engines[self._decision.path], self._rid)

    # ---- accounts

    def _on_flow(self, at: float) -> None:
        if self._decision is not None:
            self._services.pair.engines[self._decision.path].record_flow(at)

    def _report(self, effect: Effect) -> None:
        """Tell the pair what became of the current decision, once."""
        decision, self._unreported = self._unreported, None
        if decision is not None:
            self._services.pair.report(decision, effect)

    def _report_suspect(self, effect: Effect) -> None:
        """Tell the pair what the first path's 5xx was worth, once that is known."""
        suspect, self._suspect = self._suspect, None
        if suspect is not None:
            self._services.pair.report(suspect, effect)

    def _report_last(self) -> None:
        """Tell the pair what became of what has not been told yet.

        A request that every engine answers with a 5xx says nothing of the engines: some bodies make SGLang
        fail (a list as `rid`), and a client that sends them must not take the engines from all others.
        """
        failure, suspect = self._failure, self._suspect
        everywhere = suspect is not self._decision if suspect else len(self._services.pair.engines) == 1
        blameless = failure is not None and failure.kind is Kind.STATUS_5XX and everywhere
        self._report_suspect(Effect.NEUTRAL if blameless else Effect.FAILURE)
        self._report(Effect.NEUTRAL if failure is None or blameless else failure.row.effect)

    async def _tell(self, failure: Failure) -> None:
        headers: Headers = []
        if failure.row.retry_after:
            headers.append((b"retry-after", str(self._retry_after(failure.kind)).encode()))
        try:
            async with asyncio.timeout(TELL_LIMIT):
                await self._client.send_failure(failure, headers + self._route_headers())
        except TimeoutError:
            self._client.reset()

    def _route_headers(self) -> Headers:
        return route_headers(self._decision) if self._decision is not None else []

    def _retry_after(self, kind: Kind) -> int:
        services = self._services
        if kind in (Kind.NO_ENGINE, Kind.ONLY_PATH, Kind.CONNECT, Kind.CONNECT_TIMEOUT):
            return whole_seconds(services.pair.retry_in())
        return services.drain_rate.retry_after(services.door.waiting + 1)

    def _record(self, outcome: Outcome) -> RequestRecord:
        progress, decision = self._progress, self._decision
        scanner = progress.scanner
        usage = scanner.usage() if scanner else Usage(None, None)
        first, last = progress.first_byte_at, progress.last_byte_at
        return RequestRecord(
            request_id=self._client.request_id.decode(),
            route=self._route.label,
            path=decision.path if decision else None,
            reason=decision.reason if decision else None,
            outcome=outcome,
            kind=self._failure.kind if self._failure else None,
            status=self._client.status,
            queued_for=self._queued_for,
            first_byte=first - self._began if first is not None else None,
            duration=self._loop.time() - self._began,
            stream_time=last - first if first is not None and last is not None else 0.0,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            events=scanner.content_events if scanner else 0,
            streamed=self._client.streaming,
        )
