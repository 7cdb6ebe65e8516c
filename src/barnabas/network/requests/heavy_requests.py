"""Heavy requests: limits on elements and bytes, and serving them without blocking others.

A request of few elements is decoded and handled in place (`dispatch.py`). A larger one is copied, its
connection waits, and it is decoded, handled and answered in slices of the loop's time. So is a small request
whose handler marks its response as large (`request.is_large`). Only a few of them run at once, so that memory
is bounded: the others wait, holding only their bytes, which count against `queued.max.request.bytes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.common.errors import ErrorCode
from barnabas.config.broker import BrokerConfig
from barnabas.metrics import RequestMetrics
from barnabas.network.requests.routes import has_records
from barnabas.network.requests.time_slices import RequestTurn, freeing
from barnabas.protocol.api import response_class
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import TooManyElementsError

if TYPE_CHECKING:
    from barnabas.network.requests.request import Request

# A request that takes longer waits for the controller or for followers: the next one need not wait for it.
MAX_HOLD_SECONDS = 5.0
OVERDUE_PER_SLOT = 3

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RequestBudget:
    """Limits of one request, with their settings."""

    elements: int = 150_000  # barnabas.request.max.elements
    request_bytes: int = 16 << 20  # barnabas.heavy.request.max.bytes
    response_bytes: int = 32 << 20  # barnabas.response.max.bytes
    undivided_elements: int = 10_000  # barnabas.undivided.request.max.elements
    at_once: int = 2  # barnabas.heavy.requests.at.once


def budget_from(config: BrokerConfig) -> RequestBudget:
    """Return the limits from a broker's settings."""
    return RequestBudget(
        elements=config["barnabas.request.max.elements"],
        request_bytes=config["barnabas.heavy.request.max.bytes"],
        response_bytes=config["barnabas.response.max.bytes"],
        undivided_elements=config["barnabas.undivided.request.max.elements"],
        at_once=config["barnabas.heavy.requests.at.once"],
    )


class ExceededError(Exception):
    """A request or its response exceeds a limit; `limit` is its metric label."""

    def __init__(self, limit: str, text: str) -> None:
        super().__init__(text)
        self.limit = limit


@asynccontextmanager
async def _freed_in_turns() -> AsyncIterator[list[Any]]:
    """A list for the messages of a request. At the end they are freed in slices: at once takes 20 to 60 ms."""
    used: list[Any] = []
    try:
        yield used
    except asyncio.CancelledError:
        used.clear()  # the broker stops
        raise
    finally:
        await RequestTurn().run(freeing(used))


class RequestSlots:
    """A semaphore whose slots are held for a limited time: a request that waits for other brokers does not
    block others.

    A bounded number may keep running beyond that time, because each keeps its decoded message.
    """

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._overdue = 0
        self._most_overdue = OVERDUE_PER_SLOT * count
        self.waiting = 0

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        is_overdue = False

        def lend_to_others() -> None:
            nonlocal is_overdue
            if self._overdue < self._most_overdue:
                is_overdue = True
                self._overdue += 1
                self._free.release()

        expiry = asyncio.get_running_loop().call_later(MAX_HOLD_SECONDS, lend_to_others)
        try:
            yield
        finally:
            expiry.cancel()
            if is_overdue:
                self._overdue -= 1
            else:
                self._free.release()


class HeavyRequests:
    """Heavy requests of one broker: some run, the others wait in order of arrival."""

    def __init__(self, metrics: RequestMetrics, budget: RequestBudget) -> None:
        self.budget = budget
        self._metrics = metrics
        # Separate, so that requests that wait for other brokers do not delay large responses to small
        # requests.
        self._heavy = RequestSlots(budget.at_once)
        self._large = RequestSlots(budget.at_once)
        metrics.heavy_waiting(lambda: self._heavy.waiting + self._large.waiting)

    def weigh(self, request: Request, size: int) -> ExceededError | None:
        """Count a heavy request; return an error if it is too long."""
        self._metrics.heavy(request.route.name).value += 1
        if size <= self.budget.request_bytes:
            return None
        return ExceededError(
            "bytes",
            f"{request.route.name} of {size} bytes, more than {self.budget.request_bytes} "
            "(barnabas.heavy.request.max.bytes)",
        )

    async def serve(self, request: Request, body: memoryview) -> None:
        """Decode and handle a request, and send the response unless the handler does so later."""
        async with self._heavy.one():
            if request.connection.closed:
                return
            async with _freed_in_turns() as used:
                used.append(await self._decode(request, body))
                response = request.dispatcher.call(request, used[0], request.route.in_turns)
                used.append(await response if isinstance(response, Coroutine) else response)
                del response
                await self._send(request, used[-1])

    async def _decode(self, request: Request, body: memoryview) -> Message:
        limit, setting = self._max_elements(request)
        try:
            return await RequestTurn().run(request.route.decode_in_steps(body, limit))
        except TooManyElementsError as error:
            raise ExceededError("elements", f"{error} ({setting})") from error

    def _max_elements(self, request: Request) -> tuple[int, str]:
        """Return the maximum number of elements of a request, and its setting."""
        elements, undivided = self.budget.elements, self.budget.undivided_elements
        if request.route.handler.in_turns is None and undivided < elements:
            return undivided, "barnabas.undivided.request.max.elements"
        return elements, "barnabas.request.max.elements"

    async def finish(self, request: Request, coroutine: Coroutine[object, object, Message | None]) -> None:
        """Wait for a large response to a small request, and send it."""
        async with self._large.one(), _freed_in_turns() as used:
            used.append(await coroutine)
            await self._send(request, used[-1])

    async def respond(self, request: Request, response: Message) -> None:
        """Encode a response of many elements, and send it."""
        async with _freed_in_turns() as used:
            used.append(response)
            del response
            await self._send(request, used[-1])

    async def _send(self, request: Request, response: Message | None) -> None:
        if response is None or request.connection.closed:
            return
        steps = request.route.write_in_steps(request.correlation_id, request.completed(response))
        answer = await RequestTurn().run(steps)
        size = sum(map(len, answer))
        if size > self.budget.response_bytes and not has_records(type(response)):
            del response  # the traceback of the exception refers to this frame
            raise ExceededError(
                "answer",
                f"the response to {request.route.name} has {size} bytes, more than {self.budget.response_bytes} "
                "(barnabas.response.max.bytes): request fewer elements",
            )
        if not request.connection.closed:
            request.finish(answer)

    def refusal(self, request: Request, error: ExceededError) -> Message | None:
        """Count a refused request; return its response, if its API has a top-level error."""
        self._metrics.refused(request.route.name, error.limit).value += 1
        response = response_class(request.route.api_key)()
        if not _can_tell(response, "error_code", request.version):
            return None
        response.error_code = ErrorCode.POLICY_VIOLATION  # type: ignore[attr-defined]  # checked above
        if _can_tell(response, "error_message", request.version):
            response.error_message = str(error)  # type: ignore[attr-defined]
        return response


def _can_tell(response: Message, name: str, version: int) -> bool:
    return any(field.name == name and field.present_in(version) for field in response.FIELDS)


def run_or_continue_in_slices(
    request: Request, steps: Generator[None, None, R]
) -> R | Coroutine[object, object, R]:
    """Return the result of a handler whose response may be large: the response, if its first step is the last
    one.
    """
    try:
        next(steps)
    except StopIteration as end:
        result: R = end.value
        return result
    request.is_large = True
    return RequestTurn().run(steps)
