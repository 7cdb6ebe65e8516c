"""Requests that take longer than one turn of the loop: handlers that wait, and requests or answers of many elements."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from barnabas.common.safe_logging import rate_limited_logger
from barnabas.network.frames import HANDLER
from barnabas.network.requests.heavy_requests import Budget, ExceededError, HeavyRequests
from barnabas.network.requests.request import Request
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ProtocolError

if TYPE_CHECKING:
    from barnabas.network.connection import Connection

log = rate_limited_logger(__name__)


class RequestTasks:
    """The tasks of a dispatcher. While one runs for a connection, the next requests of that connection wait."""

    def __init__(self, heavy: HeavyRequests) -> None:
        self._heavy = heavy
        self._tasks: set[asyncio.Task[None]] = set()

    def use_budget(self, budget: Budget) -> None:
        self._heavy.budget = budget

    def run(self, connection: Connection, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run what serves a client without a request; what it sends next has to wait."""
        connection.pause(HANDLER)
        self._keep_task(self._run_for(connection, coroutine))

    async def _run_for(self, connection: Connection, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            await coroutine
        except Exception as error:
            log.error("what %r sent failed; it is closed", connection, exc_info=error)
            connection.close("a token failed")
        finally:
            connection.resume(HANDLER)

    def cancel_tasks(self) -> None:
        """Give up on handlers that still run; nobody is left to hear their answers."""
        for task in self._tasks:
            task.cancel()

    def _start_task(
        self, connection: Connection, request: Request, coroutine: Coroutine[Any, Any, None]
    ) -> None:
        """Run what resumes the connection at its end."""
        request.is_queued = True
        connection.unanswered.append(request)
        connection.pause(HANDLER)
        self._keep_task(coroutine)

    def _keep_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, request: Request, coroutine: Coroutine[Any, Any, Message | None]) -> None:
        try:
            if request.is_large:
                await self._heavy.finish(request, coroutine)
            elif (response := await coroutine) is not None:
                request.respond(response)
        except Exception as error:
            self._end(request, error)
        finally:
            request.connection.resume(HANDLER)

    # Requests and answers of many elements

    async def _serve(self, request: Request, body: memoryview, problem: ExceededError | None) -> None:
        connection, size = request.connection, len(body)
        connection.hold_memory(size)
        try:
            if problem is not None:
                raise problem
            await self._heavy.serve(request, body)
        except Exception as error:
            self._end(request, error)
        finally:
            connection.release_memory(size)
            connection.resume(HANDLER)

    def respond_in_turns(self, request: Request, response: Message) -> None:
        """Answer later, when many elements are encoded."""
        self._keep_task(self._ending(request, self._heavy.respond(request, response)))

    def finish_in_turns(self, request: Request, coroutine: Coroutine[Any, Any, Message | None]) -> None:
        """Answer a request, to which nobody listens any more, with what a coroutine returns unless it is None."""
        request.is_large = True
        self._keep_task(self._ending(request, self._heavy.finish(request, coroutine)))

    async def _ending(self, request: Request, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            await coroutine
        except Exception as error:
            self._end(request, error)

    def _end(self, request: Request, error: Exception) -> None:
        """A request cannot be served: because it exceeds a bound, cannot be decoded, or by a mistake of ours."""
        if isinstance(error, ExceededError):
            self._refuse(request, error)
        elif isinstance(error, ProtocolError):
            request.connection.close(f"a request cannot be decoded: {error}", logging.WARNING)
        else:
            self.fail(request, error)

    def _refuse(self, request: Request, error: ExceededError) -> None:
        response = self._heavy.refusal(request, error)
        if response is None:
            request.connection.close(f"a request is refused: {error}", logging.WARNING)
        else:
            request.is_large = False
            request.respond(response)

    # Mistakes

    def fail(self, request: Request, error: Exception) -> None:
        """A handler raised what it should have answered: a mistake of ours. The client will try again.

        An UNKNOWN_SERVER_ERROR instead would make a Java producer write duplicates (KAFKA-14034).
        """
        log.error("%r failed; the connection is closed", request, exc_info=error)
        request.connection.close("a request failed")
