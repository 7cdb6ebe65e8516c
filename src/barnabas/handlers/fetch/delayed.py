"""Delayed fetch: attempt, wait for a change, attempt again."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.handlers.fetch.attempt import (
    READ_AT_ONCE,
    Steps,
    attempt,
    attempt_in_steps,
    cold_logs,
    cold_logs_in_steps,
    to_read,
)
from barnabas.handlers.fetch.reader import Cold, PartitionReader
from barnabas.network.requests import RequestTurn, at_once_or_in_turns
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.replication import NO_SESSION, ColdReads, DelayedOperation, TimerLoop

if TYPE_CHECKING:
    from barnabas.network.requests.dispatch import Request


class Waiting(TimerLoop, Protocol):
    @property
    def page_cache(self) -> ColdReads: ...


def start(
    broker: Waiting, request: Request, reader: PartitionReader
) -> FetchResponse | Coroutine[Any, Any, FetchResponse | None] | None:
    """Respond at once if there is enough data."""
    session = reader.session
    if len(to_read(session)) > READ_AT_ONCE:
        return at_once_or_in_turns(request, _start_in_steps(broker, request, reader))
    cold = cold_logs(reader, session.ready, broker.page_cache)
    if cold:
        _warm(broker, request, reader, cold)
        return None
    response = attempt(reader, reader.wait_ms <= 0)
    if response is None:
        DelayedFetch(broker, request, reader).watch()
    return response


def _start_in_steps(broker: Waiting, request: Request, reader: PartitionReader) -> Steps:
    cold = yield from cold_logs_in_steps(reader, broker.page_cache)
    if cold:
        _warm(broker, request, reader, cold)
        return None
    response = yield from attempt_in_steps(reader, reader.wait_ms <= 0)
    if response is None:
        delayed = DelayedFetch(broker, request, reader)
        delayed.watch()
        if request.is_large and reader.session.ready:  # data arrived meanwhile
            delayed.changed()
    return response


def _warm(broker: Waiting, request: Request, reader: PartitionReader, cold: list[Cold]) -> None:
    broker.page_cache.warm(reader.to_warm(cold), DelayedFetch(broker, request, reader).warmed)


class DelayedFetch(DelayedOperation):
    __slots__ = ("_has_changed", "_is_late", "_is_trying", "_reader", "_request")

    def __init__(self, loop: TimerLoop, request: Request, reader: PartitionReader) -> None:
        super().__init__(loop)
        self._request = request
        self._reader = reader
        self._is_late = reader.wait_ms <= 0
        self._is_trying = self._has_changed = False  # while an attempt takes several turns

    def watch(self) -> None:
        if not self.is_completed:
            self._reader.session.on_ready = self.changed
            self._request.client_wait = self._reader.wait_ms / 1000
            self.wait(self._request.client_wait)

    def warmed(self) -> None:
        """Start the first attempt: its data is in memory now."""
        self.try_complete()
        self.watch()

    def on_expiration(self) -> None:
        self._is_late = True
        self.try_complete()

    def try_complete(self) -> bool:
        if self._is_trying:
            self._has_changed = True
            return False
        reader = self._reader
        is_final = self._is_late or reader.session.ends_now
        try:
            if len(to_read(reader.session)) > READ_AT_ONCE:
                self._try_in_steps(attempt_in_steps(reader, is_final))
            else:
                self._answer(attempt(reader, is_final))
        except Exception as error:  # the loop ignores exceptions of its callbacks
            self.complete()
            self._request.dispatcher.fail(self._request, error)
        return self.is_completed

    def _try_in_steps(self, steps: Steps) -> None:
        try:
            next(steps)
        except StopIteration as end:
            self._answer(end.value)
        else:
            self._is_trying = True
            self._request.dispatcher.finish_in_turns(self._request, self._go_on(steps))

    def _answer(self, response: FetchResponse | None) -> None:
        if response is not None and self.complete():
            self._request.respond(response)

    async def _go_on(self, steps: Steps) -> FetchResponse | None:
        """Run an attempt over several turns. Changes in between are handled afterwards."""
        response = await RequestTurn().run(steps)
        if response is None and self._is_late:
            response = await RequestTurn().run(attempt_in_steps(self._reader, final=True))
        self._is_trying = False
        if response is not None:
            self.complete()
        elif self._has_changed:
            self._has_changed = False
            self.changed()
        return response

    def on_complete(self) -> None:
        session = self._reader.session
        session.on_ready = None
        if session.id == NO_SESSION:
            session.close()
