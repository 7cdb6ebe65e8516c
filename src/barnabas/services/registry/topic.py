"""The topic `_schemas`: created if missing, rejected if it could lose schemas."""

from __future__ import annotations

from barnabas.client import Client, admin
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.config.setting import ConfigError

TOPIC = "_schemas"
REPLICAS = 3  # fewer with fewer brokers
TOPIC_PARTITION = TopicPartition(TOPIC, 0)


class UnsuitableTopicError(ConfigError):
    """The topic could lose schemas; the message says how to repair it."""


async def ensure_topic(client: Client, topic: str = TOPIC) -> None:
    await _create(client, topic)
    partitions = await client.partitions([topic])
    if len(partitions) != 1:
        raise UnsuitableTopicError(
            f"topic {topic} has {len(partitions)} partitions, and the order of schemas is that of one: copy it to a "
            "topic with one partition, or let this registry use another topic (--topic)"
        )
    policy = (await admin.setting_of_topics(client, [topic], "cleanup.policy"))[topic]
    if policy != "compact":
        raise UnsuitableTopicError(
            f"topic {topic} has cleanup.policy={policy}: schemas and their ids would vanish with old segments. "
            f"Repair it with: barnabas configs set topic {topic} cleanup.policy=compact"
        )


async def _create(client: Client, topic: str) -> None:
    known = (await client.refresh([topic])).topics.get(topic)
    if known is not None and not known.error:
        return
    try:
        await admin.create_topic(
            client,
            topic,
            partitions=1,
            replication_factor=min(REPLICAS, len(client.metadata.brokers)),
            configs={"cleanup.policy": "compact"},
        )
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
