"""Delayed fetch: attempt, wait for a change, attempt again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.handlers.fetch.attempt import (
    READ_AT_ONCE,
    Found,
    Steps,
    attempt,
    attempt_in_steps,
    read_changed,
    response_of,
    to_read,
)
from barnabas.handlers.fetch.reader import PartitionReader
from barnabas.handlers.needs import FetchNeeds
from barnabas.network.requests import RequestTurn, Result, run_or_continue_in_slices
from barnabas.protocol.messages.fetch import FetchPartition, FetchResponse, FetchTopic
from barnabas.replication import NO_SESSION, ColdReads, DelayedOperation, Loaded, TimerLoop

if TYPE_CHECKING:
    from barnabas.network.requests import Request


def start(broker: FetchNeeds, request: Request, reader: PartitionReader) -> Result[FetchResponse]:
    """Respond at once if there is enough data."""
    session = reader.session
    if len(to_read(session)) > READ_AT_ONCE:
        return run_or_continue_in_slices(request, _start_in_steps(broker, request, reader))
    may_wait = reader.wait_ms > 0 and reader.min_bytes > 0
    is_waiting = reader.cold or (may_wait and reader.set_idle_if_caught_up())
    response = None if is_waiting else attempt(reader, reader.wait_ms <= 0)
    if response is None:
        DelayedFetch(broker, request, reader).start(broker.page_cache)
    return response


def _start_in_steps(broker: FetchNeeds, request: Request, reader: PartitionReader) -> Steps:
    response = yield from attempt_in_steps(reader, reader.wait_ms <= 0)
    if response is None:
        delayed = DelayedFetch(broker, request, reader)
        delayed.start(broker.page_cache)
        if request.is_large and reader.session.ready and not reader.cold:  # data arrived meanwhile
            delayed.changed()
    return response


class DelayedFetch(DelayedOperation):
    __slots__ = ("_has_changed", "_is_late", "_is_trying", "_reader", "_request")

    def __init__(self, loop: TimerLoop, request: Request, reader: PartitionReader) -> None:
        super().__init__(loop)
        self._request = request
        self._reader = reader
        self._is_late = reader.wait_ms <= 0
        self._is_trying = self._has_changed = False  # while an attempt takes several turns

    def start(self, cold_reads: ColdReads) -> None:
        """Wait for data that is not in memory, or for new data."""
        cold = self._reader.cold
        if cold:
            loaded = {each.key: each for each in cold}
            cold_reads.load(cold, lambda: self._attempt_loaded(loaded))
        else:
            self._reader.loaded = {}  # written while it waits: in memory
            self._watch()

    def _attempt_loaded(self, loaded: Loaded) -> None:
        """Make the first attempt with all data."""
        self._reader.loaded = loaded
        self.try_complete()
        self._watch()

    def _watch(self) -> None:
        if not self.is_completed:
            self._reader.session.on_ready = self.changed
            self._request.client_wait = self._reader.wait_ms / 1000
            self.wait(self._request.client_wait)

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
            self._end()
            self._request.dispatcher.fail(self._request, error)
        return self.is_completed

    def _try_in_steps(self, steps: Steps) -> None:
        try:
            next(steps)
        except StopIteration as end:
            self._answer(end.value)
        else:
            self._is_trying = True
            self._request.dispatcher.finish_in_slices(self._request, self._continue(steps))

    def _answer(self, response: FetchResponse | None) -> None:
        if response is not None and self._end():
            self._request.respond(response)

    async def _continue(self, steps: Steps) -> FetchResponse | None:
        """Run an attempt over several turns. Changes in between are handled afterwards."""
        response = await RequestTurn().run(steps)
        if response is None and self._is_late:
            response = await RequestTurn().run(attempt_in_steps(self._reader, final=True))
        self._is_trying = False
        if response is not None:
            self._end()
        elif self._has_changed:
            self._has_changed = False
            self.changed()
        return response

    def _end(self) -> bool:
        """Stop watching; True once."""
        if not self.complete():
            return False
        session = self._reader.session
        session.on_ready = None
        if session.id == NO_SESSION:
            session.close()
        return True


class SessionlessFetch(DelayedOperation):
    """A fetch of one topic without a session that waits for data. It has read all partitions, and found too little."""

    __slots__ = ("_found", "_is_late", "_reader", "_request", "_topic")

    def __init__(
        self,
        loop: TimerLoop,
        request: Request,
        reader: PartitionReader,
        topic: FetchTopic,
        found: list[Found[FetchPartition]],
    ) -> None:
        super().__init__(loop)
        self._request = request
        self._reader = reader
        self._topic = topic
        self._found = found
        self._is_late = False

    def start(self) -> None:
        reader = self._reader
        reader.loaded = {}  # written while it waits: in memory
        self._watch()
        seconds = self._request.client_wait = reader.wait_ms / 1000
        self.wait(seconds)

    def partition_changed(self, new_bytes: int) -> None:
        self.changed()

    def on_expiration(self) -> None:
        self._is_late = True
        self.try_complete()

    def try_complete(self) -> bool:
        reader = self._reader
        try:
            reader.notes = None
            self._found, total = read_changed(reader, self._topic, self._found)
            if reader.may_answer(total, self._is_late):
                self._end()
                reader.count()
                self._request.respond(response_of(self._topic, self._found))
            else:
                self._watch()
        except Exception as error:  # the loop ignores exceptions of its callbacks
            self._end()
            self._request.dispatcher.fail(self._request, error)
        return self.is_completed

    def _watch(self) -> None:
        for _, partition, _ in self._found:
            if partition is not None:
                partition.watch(self)

    def _end(self) -> None:
        """Stop watching."""
        self.complete()
        for _, partition, _ in self._found:
            if partition is not None:
                partition.unwatch(self)
