"""Stage two of a produce request: waiting until its batches are as durable as the client requires."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from barnabas.replication import DelayedOperation, Durability, Partition, TimerLoop

if TYPE_CHECKING:
    from barnabas.network.requests import Request

NO_ACKNOWLEDGEMENT = 0

Unacknowledged = tuple[Partition, int, PartitionProduceResponse]
"""An appended batch: its partition, its end offset, and its part of the response."""


class DelayedProduce(DelayedOperation):
    """Responds when every batch is durable (acks=all), or written (to a slow disk), or at the timeout."""

    __slots__ = ("_acks", "_open", "_request", "_response")

    def __init__(self, loop: TimerLoop, request: Request, response: ProduceResponse, acks: int) -> None:
        super().__init__(loop)
        self._acks = acks
        self._request = request
        self._response = response
        self._open: dict[int, PartitionProduceResponse] = {}

    def start(self, durability: Durability, unacknowledged: list[Unacknowledged], timeout_ms: int) -> None:
        self._request.time_budget = max(timeout_ms, 0) / 1000
        self._open = {id(answer): answer for _, _, answer in unacknowledged}
        for partition, end, answer in unacknowledged:
            durability.when(partition, end, partial(self._settle, answer), self._acks)
        self.wait(self._request.time_budget)

    def _settle(self, answer: PartitionProduceResponse, error: ErrorCode) -> None:
        if self._open.pop(id(answer), None) is None:
            return  # the timeout came first
        if error:
            answer.error_code = error
            answer.base_offset = -1
        self.try_complete()

    def try_complete(self) -> bool:
        if self._open or not self.complete():
            return False
        if self._acks == NO_ACKNOWLEDGEMENT:
            answer_nothing(self._request, self._response)
        else:
            self._request.respond(self._response)
        return True

    def on_expiration(self) -> None:
        for answer in self._open.values():
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._open.clear()
        self.try_complete()


def answer_nothing(request: Request, response: ProduceResponse) -> None:
    """Complete an acks=0 request, which has no response: on failure, close the connection to signal it."""
    if any(answer.error_code for topic in response.responses for answer in topic.partition_responses):
        request.close("a produce request with acks=0 failed")
    else:
        request.respond_nothing()
