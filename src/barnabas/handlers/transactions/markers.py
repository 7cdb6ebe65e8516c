"""WriteTxnMarkers 1 and 2: markers for partitions that this broker leads.

They come from transaction coordinators. Administrators may use them only to abort hanging transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from barnabas.common.clock import Timers
from barnabas.common.errors import ErrorCode
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.transactions import Marker, MarkerWriter

if TYPE_CHECKING:
    from barnabas.network.requests import Request

MARKER_SECONDS = 10.0  # less than the coordinator waits for an answer (REQUEST_SECONDS in cluster/peers.py)


class MarkerCoordinators(Protocol):
    @property
    def markers(self) -> MarkerWriter: ...


class MarkerNeeds(Protocol):
    """Broker attributes used by WriteTxnMarkers."""

    @property
    def timers(self) -> Timers: ...

    @property
    def coordinators(self) -> MarkerCoordinators: ...


def write_txn_markers(broker: MarkerNeeds, request: Request, message: WriteTxnMarkersRequest) -> None:
    response = WriteTxnMarkersResponse(markers=[_marker_result(marker) for marker in message.markers])
    written = MarkersWritten(broker, request, response)
    for marker, answer in zip(message.markers, response.markers, strict=True):
        for topic in answer.topics:
            for result in topic.partitions:
                tp = TopicPartition(topic.name, result.partition_index)
                _write_marker(
                    broker,
                    request,
                    tp,
                    _marker(marker),
                    lambda error, at=result: written.settle(at, error),  # type: ignore[misc]
                )
    written.all_asked()


def _write_marker(
    broker: MarkerNeeds,
    request: Request,
    tp: TopicPartition,
    marker: Marker,
    answer: Callable[[ErrorCode], None],
) -> None:
    refusal = (
        ErrorCode.NONE
        if request.context.is_privileged
        else broker.coordinators.markers.refusal_of_client(tp, marker)
    )
    if refusal:
        answer(refusal)
    else:
        broker.coordinators.markers.write(tp, marker, answer)


def _marker(marker: WritableTxnMarker) -> Marker:
    return Marker(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
    )


def _marker_result(marker: WritableTxnMarker) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=index)
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )


class MarkersWritten:
    """Responds when every marker is durable, or names those that are not yet: the coordinator retries them."""

    def __init__(self, broker: MarkerNeeds, request: Request, response: WriteTxnMarkersResponse) -> None:
        self._request = request
        self._response = response
        self._open = {
            id(result): result
            for marker in response.markers
            for topic in marker.topics
            for result in topic.partitions
        }
        self._all_asked = False
        self._timer = broker.timers.call_later(MARKER_SECONDS, self._time_out)

    def settle(self, result: WritableTxnMarkerPartitionResult, error: ErrorCode) -> None:
        if self._open.pop(id(result), None) is not None:
            result.error_code = error
            self._answer_if_complete()

    def all_asked(self) -> None:
        self._all_asked = True
        self._answer_if_complete()

    def _time_out(self) -> None:
        for result in list(self._open.values()):
            self.settle(result, ErrorCode.REQUEST_TIMED_OUT)

    def _answer_if_complete(self) -> None:
        if self._all_asked and not self._open:
            self._timer.cancel()
            self._request.respond(self._response)
