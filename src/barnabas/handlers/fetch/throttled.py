"""A fetch above its consumer's quota: nothing is sent, and the session is as if nothing had been read.

The consumer comes again after the time that the answer names. One that has just begun a session begins another, because
an answer without its partitions opens none (KIP-219, KIP-227).
"""

from __future__ import annotations

from typing import Protocol

from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.replication.fetch_sessions import INITIAL_EPOCH, NO_SESSION, FetchSessions
from barnabas.replication.manager import ReplicaManager
from barnabas.common.types import ZERO_UUID


class Withholding(Protocol):
    @property
    def fetch_sessions(self) -> FetchSessions: ...

    @property
    def replicas(self) -> ReplicaManager: ...


def withheld(broker: Withholding, message: FetchRequest, response: FetchResponse) -> FetchResponse:
    """The answer without what was read. One that has no records but an error for the whole request stays."""
    if response.error_code:
        return response
    _count_as_unsent(broker.replicas, response)
    if message.session_epoch == INITIAL_EPOCH:
        broker.fetch_sessions.close(response.session_id)
        return FetchResponse(session_id=NO_SESSION)
    broker.fetch_sessions.take_back(response)
    return FetchResponse(session_id=response.session_id)


def _count_as_unsent(replicas: ReplicaManager, response: FetchResponse) -> None:
    for topic in response.responses:
        by_id = topic.topic_id != ZERO_UUID
        partitions = replicas.by_id.get(topic.topic_id) if by_id else replicas.by_name.get(topic.topic)
        for data in topic.partitions:
            if data.records and partitions is not None and data.partition_index in partitions:
                partitions[data.partition_index].counters.bytes_out.value -= len(data.records)
