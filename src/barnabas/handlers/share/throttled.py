"""A share fetch above its consumer's quota: nothing is sent, and what was acquired is as if it had never been.

Kafka's answer is empty, too, but the records stay acquired until their locks run out, and count as delivered. Here
they are free at once, for this member when its time is over, and for others before that.
"""

from __future__ import annotations

from barnabas.handlers.share.requests import ShareNeeds
from barnabas.protocol.internal_topics import SharePartitionKey
from barnabas.protocol.messages.share import ShareFetchPartitionData, ShareFetchRequest, ShareFetchResponse
from barnabas.share.partition_manager import SharePartitionManager


def withheld(
    broker: ShareNeeds, message: ShareFetchRequest, response: ShareFetchResponse
) -> ShareFetchResponse:
    """The answer without records. What became of acknowledgements is told all the same."""
    acknowledged = {
        (topic.topic_id, wanted.partition_index)
        for topic in message.topics
        for wanted in topic.partitions
        if wanted.acknowledgement_batches
    }
    for topic in response.responses:
        for data in topic.partitions:
            if data.acquired_records:
                key = SharePartitionKey(message.group_id or "", topic.topic_id, data.partition_index)
                _give_back(broker.coordinators.share_partitions, key, message.member_id or "", data)
        topic.partitions = [
            data for data in topic.partitions if (topic.topic_id, data.partition_index) in acknowledged
        ]
    response.responses = [topic for topic in response.responses if topic.partitions]
    return response


def _give_back(
    partitions: SharePartitionManager, key: SharePartitionKey, member: str, data: ShareFetchPartitionData
) -> None:
    led = partitions.find(key)
    if led is not None:
        led.partition.counters.bytes_out.value -= len(data.records or b"")
        led.give_back(member, [(each.first_offset, each.last_offset) for each in data.acquired_records])
    data.records, data.acquired_records = b"", []
