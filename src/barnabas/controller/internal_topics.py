"""Configs of internal topics, which are created by a coordinator that needs one, or by a client's Metadata."""

from __future__ import annotations

from barnabas.cluster import node_of
from barnabas.cluster.image import MetadataImage, effective_min_isr
from barnabas.config.broker import BrokerConfig
from barnabas.controller.topics import NewTopic
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE

_SETTINGS = {
    CONSUMER_OFFSETS: "offsets.topic",
    TRANSACTION_STATE: "transaction.state.log",
    SHARE_GROUP_STATE: "share.coordinator.state.topic",
}
"""Prefix of the settings of a topic."""

# Coordinators need the newest record of each key, and choose their own batches.
_CONFIGS = {
    CONSUMER_OFFSETS: {"cleanup.policy": "compact", "compression.type": "producer"},
    TRANSACTION_STATE: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "unclean.leader.election.enable": "false",
    },
    # Never compacted: the share coordinator deletes obsolete records (KIP-932).
    SHARE_GROUP_STATE: {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
}


def internal_topic(
    config: BrokerConfig, image: MetadataImage, name: str, *, is_alone: bool = True
) -> NewTopic | None:
    """The internal topic to create under this name; None for any other name."""
    prefix = _SETTINGS.get(name)
    if prefix is None:
        return None
    factor = config[f"{prefix}.replication.factor"]
    if is_alone:
        # A single node has internal topics too; in a cluster they wait, as in Kafka, until enough brokers are up.
        factor = min(factor, max(1, len(set(map(node_of, image.brokers.values())))))
    configs: dict[str, str | None] = {
        **_CONFIGS[name],
        "segment.bytes": str(config[f"{prefix}.segment.bytes"]),
    }
    if name != CONSUMER_OFFSETS:
        configs["min.insync.replicas"] = str(effective_min_isr(config[f"{prefix}.min.isr"], factor))
    return NewTopic(name, config[f"{prefix}.num.partitions"], factor, configs=configs)
