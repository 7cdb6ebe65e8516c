"""kafka_exporter's metrics: names, labels and help texts are unchanged, so that its dashboards and rules keep
working.

They describe the whole cluster, so they must be served once: by `barnabas console`, or by a single-node
broker (`barnabas.metrics.exporter`). Unlike kafka_exporter, a partition without a commit has no sample
instead of -1, which would distort sums. Its metrics of groups with offsets in ZooKeeper do not apply.
"""

from __future__ import annotations

from barnabas.metrics.registry import gauge, metrics_among

_PARTITION = ("topic", "partition")
_GROUP_PARTITION = ("consumergroup", "topic", "partition")

BROKERS = gauge("kafka_brokers", "Number of Brokers in the Kafka Cluster.")
BROKER_INFO = gauge("kafka_broker_info", "Information about the Kafka Broker.", "id", "address")

TOPIC_PARTITIONS = gauge("kafka_topic_partitions", "Number of partitions for this Topic", "topic")
CURRENT_OFFSET = gauge(
    "kafka_topic_partition_current_offset", "Current Offset of a Broker at Topic/Partition", *_PARTITION
)
OLDEST_OFFSET = gauge(
    "kafka_topic_partition_oldest_offset", "Oldest Offset of a Broker at Topic/Partition", *_PARTITION
)
LEADER = gauge("kafka_topic_partition_leader", "Leader Broker ID of this Topic/Partition", *_PARTITION)
REPLICAS = gauge("kafka_topic_partition_replicas", "Number of Replicas for this Topic/Partition", *_PARTITION)
IN_SYNC_REPLICAS = gauge(
    "kafka_topic_partition_in_sync_replica",
    "Number of In-Sync Replicas for this Topic/Partition",
    *_PARTITION,
)
LEADER_IS_PREFERRED = gauge(
    "kafka_topic_partition_leader_is_preferred",
    "1 if Topic/Partition is using the Preferred Broker",
    *_PARTITION,
)
UNDER_REPLICATED = gauge(
    "kafka_topic_partition_under_replicated_partition",
    "1 if Topic/Partition is under Replicated",
    *_PARTITION,
)

GROUP_OFFSET = gauge(
    "kafka_consumergroup_current_offset",
    "Current Offset of a ConsumerGroup at Topic/Partition",
    *_GROUP_PARTITION,
)
GROUP_OFFSET_SUM = gauge(
    "kafka_consumergroup_current_offset_sum",
    "Current Offset of a ConsumerGroup at Topic for all partitions",
    "consumergroup",
    "topic",
)
GROUP_LAG = gauge(
    "kafka_consumergroup_lag",
    "Current Approximate Lag of a ConsumerGroup at Topic/Partition",
    *_GROUP_PARTITION,
)
GROUP_LAG_SUM = gauge(
    "kafka_consumergroup_lag_sum",
    "Current Approximate Lag of a ConsumerGroup at Topic for all partitions",
    "consumergroup",
    "topic",
)
GROUP_MEMBERS = gauge("kafka_consumergroup_members", "Amount of members in a consumer group", "consumergroup")

CATALOGUE = metrics_among(globals())
