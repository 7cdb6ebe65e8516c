"""Records of KRaft's `__cluster_metadata` that Barnabas reads when it opens log directories of Kafka."""

from __future__ import annotations

from barnabas.protocol.schema import Message, int8, string, uuid


class TopicRecord(Message, api_key=2, versions="0", flexible="0+"):
    name: str = string()
    topic_id: bytes = uuid()


class ConfigRecord(Message, api_key=4, versions="0", flexible="0+"):
    """A config of a topic or broker; a null value removes it."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable="0+")


class RemoveTopicRecord(Message, api_key=9, versions="0", flexible="0+"):
    topic_id: bytes = uuid()
