"""Quota accounting: bytes of requests and responses, and partitions that are created or deleted (KIP-599).

Kafka counts the length of a produce request and of a fetch response. Both are known here without encoding
them, up to a few bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.handlers.fetch import withheld
from barnabas.handlers.metadata import MetadataNeeds
from barnabas.handlers.needs import HasImage
from barnabas.handlers.share.requests import withheld as withheld_share
from barnabas.network.requests import MutationCount, QuotaBytes
from barnabas.protocol.api import ApiKey

if TYPE_CHECKING:
    from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
    from barnabas.protocol.messages.mirror import AppendMirroredRequest
    from barnabas.protocol.messages.produce import ProduceRequest
    from barnabas.protocol.messages.share import ShareFetchRequest, ShareFetchResponse
    from barnabas.protocol.messages.topics import CreatableTopic, CreatePartitionsTopic, DeleteTopicState
    from barnabas.security import RequestContext

# Bytes of a request and a response other than names and records: header and fields, per request, topic and
# partition.
_ASKED = (20, 4, 9)
_ANSWERED = (16, 18, 38)


def _produced(message: ProduceRequest, context: RequestContext) -> int:
    of_request, of_topic, of_partition = _ASKED
    size = of_request + len(context.client_id or "") + len(message.transactional_id or "")
    for topic in message.topic_data:
        size += of_topic + (len(topic.name) or len(topic.topic_id))
        for partition in topic.partition_data:
            size += of_partition + len(partition.records or b"")
    return size


def _mirrored(message: AppendMirroredRequest, context: RequestContext) -> int:
    return sum(len(each.records or b"") for topic in message.topics for each in topic.partitions)


def _fetched(response: FetchResponse | ShareFetchResponse) -> int:
    size, of_topic, of_partition = _ANSWERED
    for topic in response.responses:
        size += of_topic
        for partition in topic.partitions:
            size += of_partition + len(partition.records or b"")
    return size


def _is_of_replica(message: FetchRequest) -> bool:
    return message.replica_id >= 0 or message.replica_state.replica_id >= 0


def _cap(message: FetchRequest | ShareFetchRequest, room: int) -> None:
    message.max_bytes = min(message.max_bytes, room)


def _created(broker: MetadataNeeds, topic: CreatableTopic) -> int:
    """Count the partitions; a topic that exists is refused, not created."""
    if topic.name in broker.image.topics:
        return 0
    count: int = broker.config["num.partitions"]
    return len(topic.assignments) or (topic.num_partitions if topic.num_partitions > 0 else count)


def _deleted(broker: HasImage, topic: DeleteTopicState | str) -> int:
    image = broker.image
    name = topic if isinstance(topic, str) else topic.name or image.topic_names_by_id.get(topic.topic_id)
    state = image.topics.get(name or "")
    return len(state.partitions) if state is not None else 0


def _added(broker: HasImage, topic: CreatePartitionsTopic) -> int:
    state = broker.image.topics.get(topic.name)
    return max(topic.count - len(state.partitions), 0) if state is not None else 0


CARRIED: dict[ApiKey, QuotaBytes] = {
    ApiKey.PRODUCE: QuotaBytes(produced=_produced),
    ApiKey.FETCH: QuotaBytes(fetched=_fetched, cap=_cap, withhold=withheld, is_of_follower=_is_of_replica),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: QuotaBytes(is_of_follower=lambda message: message.replica_id >= 0),
    ApiKey.APPEND_MIRRORED: QuotaBytes(produced=_mirrored),
    ApiKey.SHARE_FETCH: QuotaBytes(fetched=_fetched, cap=_cap, withhold=withheld_share),
}

MUTATIONS: dict[ApiKey, tuple[MutationCount, ...]] = {
    ApiKey.CREATE_TOPICS: (MutationCount("topics", "topics", _created, strict_since=6),),
    ApiKey.DELETE_TOPICS: (
        MutationCount("topics", "responses", _deleted, strict_since=5),
        MutationCount("topic_names", "responses", _deleted, strict_since=5),
    ),
    ApiKey.CREATE_PARTITIONS: (MutationCount("topics", "results", _added, strict_since=3),),
}
