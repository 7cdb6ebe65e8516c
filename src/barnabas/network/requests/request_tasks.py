"""Requests that take longer than one loop iteration: waiting handlers, and requests or responses of many
elements.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING

from barnabas.common.safe_logging import rate_limited_logger
from barnabas.network.frames import HANDLER
from barnabas.network.requests.heavy_requests import ExceededError, HeavyRequests, RequestBudget
from barnabas.network.requests.request import Request
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ProtocolError

if TYPE_CHECKING:
    from barnabas.network.connection import Connection

log = rate_limited_logger(__name__)


class RequestTasks:
    """Tasks of a dispatcher. While one runs for a connection, the connection's next requests wait."""

    def __init__(self, heavy: HeavyRequests) -> None:
        self._heavy = heavy
        self._tasks: set[asyncio.Task[None]] = set()

    def use_budget(self, budget: RequestBudget) -> None:
        self._heavy.budget = budget

    def run(self, connection: Connection, coroutine: Coroutine[object, object, None]) -> None:
        """Run work for a client that does not belong to a request; its next input has to wait."""
        connection.pause(HANDLER)
        self._keep_task(self._run_for(connection, coroutine))

    async def _run_for(self, connection: Connection, coroutine: Coroutine[object, object, None]) -> None:
        try:
            await coroutine
        except Exception as error:
            log.error("processing a token of %r failed; the connection is closed", connection, exc_info=error)
            connection.close("a token failed")
        finally:
            connection.resume(HANDLER)

    def cancel_tasks(self) -> None:
        """Cancel running handlers; their clients are disconnected."""
        for task in self._tasks:
            task.cancel()

    def _start_task(
        self, connection: Connection, request: Request, coroutine: Coroutine[object, object, None]
    ) -> None:
        """Run a coroutine and resume the connection at its end."""
        request.is_queued = True
        connection.unanswered.append(request)
        connection.pause(HANDLER)
        self._keep_task(coroutine)

    def _keep_task(self, coroutine: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, request: Request, coroutine: Coroutine[object, object, Message | None]) -> None:
        try:
            if request.is_large:
                await self._heavy.finish(request, coroutine)
            elif (response := await coroutine) is not None:
                await self._respond(request, response)
        except Exception as error:
            self._end(request, error)
        finally:
            request.connection.resume(HANDLER)

    async def _respond(self, request: Request, response: Message) -> None:
        """Send the response; the handler may have found it to be large meanwhile."""
        if request.is_large:
            await self._heavy.finish(request, _returning(response))
        else:
            request.respond(response)

    # Requests and responses of many elements

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

    def respond_in_slices(self, request: Request, response: Message) -> None:
        """Encode a response of many elements in slices, then send it."""
        self._keep_task(self._ending(request, self._heavy.respond(request, response)))

    def finish_in_slices(
        self, request: Request, coroutine: Coroutine[object, object, Message | None]
    ) -> None:
        """Answer a request whose connection no longer waits for it with the result of a coroutine, unless
        that is None.
        """
        request.is_large = True
        self._keep_task(self._ending(request, self._heavy.finish(request, coroutine)))

    async def _ending(self, request: Request, coroutine: Coroutine[object, object, None]) -> None:
        try:
            await coroutine
        except Exception as error:
            self._end(request, error)

    def _end(self, request: Request, error: Exception) -> None:
        """Handle a request that cannot be served: it exceeds a limit, cannot be decoded, or hit a bug."""
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

    # Bugs

    def fail(self, request: Request, error: Exception) -> None:
        """Close the connection after an unexpected exception of a handler: a bug. The client will retry.

        An UNKNOWN_SERVER_ERROR instead would make a Java producer write duplicates (KAFKA-14034).
        """
        log.error("%r failed; the connection is closed", request, exc_info=error)
        request.connection.close("a request failed")


async def _returning(response: Message) -> Message:
    return response
