"""Members of a share group that acquire and accept every record of a topic as fast as they can.

    python -m benchmarks.clients.share --port P --topic T --partitions 6 --group G --consumers 8 --records 500000

Each consumer has a separate connection and share session over all partitions, and acknowledges acquired records with
its next fetch, as share consumers do. Records are not decoded. Members do not join the group: the state of its
partitions is initialized by an offset reset. No member waits for records once all are acquired.
"""

import argparse
import asyncio
import json
import time

from barnabas.client.connection import BrokerConnection
from barnabas.common.types import uuid_to_text
from barnabas.protocol.messages.metadata import FindCoordinatorRequest, MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.share import (
    AcknowledgementBatch,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)

_GROUP, _SHARE_PARTITION = 0, 2  # FindCoordinator key types
_ACCEPT = 1
_MAX_RECORDS = 500  # max.poll.records of a share consumer
_WAIT_MS, _MAX_BYTES = 500, 50 << 20
_RETRY_SECONDS, _TIMEOUT_SECONDS = 0.05, 60.0


async def _topic_id(connection: BrokerConnection, topic: str) -> bytes:
    answer = await connection.send(MetadataRequest([MetadataRequestTopic(name=topic)]), 12)
    found: bytes = answer.topics[0].topic_id
    return found


async def _create_state(
    connection: BrokerConnection, group: str, topic: str, topic_id: bytes, partitions: int
) -> None:
    """Reset the group to offset 0, retrying while the coordinator is being created."""
    requested = [AlterShareGroupOffsetsRequestPartition(index, 0) for index in range(partitions)]
    request = AlterShareGroupOffsetsRequest(group, [AlterShareGroupOffsetsRequestTopic(topic, requested)])
    keys = [f"{group}:{uuid_to_text(topic_id)}:{index}" for index in range(partitions)]
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        await connection.send(FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=[group]), 6)
        await connection.send(FindCoordinatorRequest(key_type=_SHARE_PARTITION, coordinator_keys=keys), 6)
        answer = await connection.send(request, 0)
        if not answer.error_code and not any(
            each.error_code for result in answer.responses for each in result.partitions
        ):
            return
        await asyncio.sleep(_RETRY_SECONDS)
    raise RuntimeError("the share coordinator does not take the state of the group")


class Consumer:
    def __init__(self, connection: BrokerConnection, options: argparse.Namespace, topic_id: bytes) -> None:
        self._connection = connection
        self._group = options.group
        self._topic_id = topic_id
        self._partitions = range(options.partitions)
        self._member = f"member-{id(self)}"
        self._epoch = 0
        self._held: dict[int, list[AcknowledgementBatch]] = {}

    async def run(self, left: "Left") -> None:
        while left.untaken or self._held:
            response = await self._connection.send(self._request(_WAIT_MS if left.untaken else 0), 2)
            if response.error_code:
                raise RuntimeError(f"ShareFetch is answered with {response.error_code}")
            self._epoch += 1
            left.unaccepted -= _records(self._held)
            self._held = {}
            if not left.unaccepted:
                left.all_accepted.set()
            self._take(response)
            left.untaken -= _records(self._held)

    def _request(self, wait_ms: int) -> ShareFetchRequest:
        requested = [
            FetchPartition(index, acknowledgement_batches=self._held.get(index, []))
            for index in (self._partitions if not self._epoch else self._held)
        ]
        return ShareFetchRequest(
            group_id=self._group,
            member_id=self._member,
            share_session_epoch=self._epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            max_records=_MAX_RECORDS,
            batch_size=_MAX_RECORDS,
            topics=[FetchTopic(self._topic_id, requested)] if requested else [],
        )

    def _take(self, response: ShareFetchResponse) -> None:
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.error_code or partition.acknowledge_error_code:
                    raise RuntimeError(f"partition {partition.partition_index}: {partition!r:.200}")
                if partition.acquired_records:
                    self._held[partition.partition_index] = [
                        AcknowledgementBatch(each.first_offset, each.last_offset, [_ACCEPT])
                        for each in partition.acquired_records
                    ]


def _records(held: dict[int, list[AcknowledgementBatch]]) -> int:
    return sum(batch.last_offset - batch.first_offset + 1 for batches in held.values() for batch in batches)


class Left:
    """Counts of records that are not yet acquired, and not yet accepted."""

    def __init__(self, count: int) -> None:
        self.untaken = self.unaccepted = count
        self.all_accepted = asyncio.Event()


async def measure(options: argparse.Namespace) -> dict[str, float]:
    connections = [
        await BrokerConnection.connect("127.0.0.1", options.port, "share-benchmark")
        for _ in range(options.consumers)
    ]
    topic_id = await _topic_id(connections[0], options.topic)
    await _create_state(connections[0], options.group, options.topic, topic_id, options.partitions)
    left = Left(options.records)
    consumers = [Consumer(connection, options, topic_id) for connection in connections]
    begin = time.monotonic()
    async with asyncio.TaskGroup() as working:
        for consumer in consumers:
            working.create_task(consumer.run(left))
        await left.all_accepted.wait()
        seconds = time.monotonic() - begin  # other members may still be waiting for records
    for connection in connections:
        connection.close()
    return {"records": options.records, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--consumers", type=int, required=True)
    parser.add_argument("--records", type=int, required=True)
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
