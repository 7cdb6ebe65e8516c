"""The table of handlers. It *is* the ApiVersions answer and the table in COMPATIBILITY.md.

An API stands here when a real client's test of it passes, with the versions that are served.
"""

from __future__ import annotations

from barnabas.protocol.messages.cluster import (
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    DescribeClusterRequest,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from barnabas.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from barnabas.protocol.messages.consumer import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from barnabas.protocol.messages.metadata import (
    ApiVersionsRequest,
    DescribeTopicPartitionsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
)
from barnabas.protocol.messages.offsets import (
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.replication import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
)
from barnabas.protocol.messages.share import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from barnabas.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    WriteShareGroupStateRequest,
)
from barnabas.protocol.messages.streams import StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest
from barnabas.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
)
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from barnabas.server.dispatch import Handler
from barnabas.server.forwarding import by_controller
from barnabas.server.handlers import (
    cluster,
    configs,
    consumer_groups,
    fetch,
    find_coordinator,
    group_admin,
    group_offsets,
    groups,
    log_dirs,
    metadata,
    offsets,
    produce,
    replication,
    share_acknowledge,
    share_fetch,
    share_groups,
    share_offsets,
    share_state,
    streams_groups,
    topic_partitions,
    topics,
    transaction_admin,
    transactional_offsets,
    transactions,
    versions,
)
from barnabas.server.handlers.slicing import SLICING
from barnabas.server.slices import in_slices

_ROWS: tuple[Handler, ...] = (
    # librdkafka's feature check wants to see Produce 0 (KAFKA-18659); 0 to 2 are refused, as by Kafka.
    Handler(ProduceRequest, 3, 13, produce.produce, advertised_min=0),
    Handler(FetchRequest, 4, 18, fetch.fetch, in_turns=fetch.fetch_in_turns),
    Handler(ListOffsetsRequest, 1, 11, offsets.list_offsets),
    Handler(MetadataRequest, 0, 13, metadata.metadata),
    Handler(OffsetCommitRequest, 2, 10, group_offsets.offset_commit),
    Handler(OffsetFetchRequest, 1, 10, group_offsets.offset_fetch),
    Handler(FindCoordinatorRequest, 0, 6, find_coordinator.find_coordinator),
    Handler(JoinGroupRequest, 0, 9, groups.join_group),
    Handler(HeartbeatRequest, 0, 4, groups.heartbeat),
    Handler(LeaveGroupRequest, 0, 5, groups.leave_group),
    Handler(SyncGroupRequest, 0, 5, groups.sync_group),
    Handler(DescribeGroupsRequest, 0, 6, group_admin.describe_groups),
    Handler(ListGroupsRequest, 0, 5, group_admin.list_groups),
    Handler(ApiVersionsRequest, 0, 4, versions.api_versions),
    Handler(CreateTopicsRequest, 2, 7, by_controller(topics.create_topics)),
    Handler(DeleteTopicsRequest, 1, 6, by_controller(topics.delete_topics)),
    Handler(DeleteRecordsRequest, 0, 2, offsets.delete_records),
    # Kafka advertises 6 (KIP-939) only when told to; no client of 4.3 uses it unasked, the exactly-once sink does.
    Handler(InitProducerIdRequest, 0, 6, transactions.init_producer_id),
    Handler(OffsetForLeaderEpochRequest, 2, 4, offsets.offset_for_leader_epoch),
    Handler(AddPartitionsToTxnRequest, 0, 5, transactions.add_partitions_to_txn, brokers_only_since=4),
    Handler(AddOffsetsToTxnRequest, 0, 4, transactions.add_offsets_to_txn),
    Handler(EndTxnRequest, 0, 5, transactions.end_txn),
    Handler(WriteTxnMarkersRequest, 1, 2, transactions.write_txn_markers),
    Handler(TxnOffsetCommitRequest, 0, 5, transactional_offsets.txn_offset_commit),
    Handler(DescribeConfigsRequest, 1, 4, configs.describe_configs, in_turns=configs.describe_configs),
    Handler(AlterConfigsRequest, 0, 2, by_controller(configs.alter_configs)),
    Handler(AlterReplicaLogDirsRequest, 1, 2, log_dirs.alter_replica_log_dirs),
    Handler(DescribeLogDirsRequest, 1, 5, log_dirs.describe_log_dirs),
    Handler(CreatePartitionsRequest, 0, 3, by_controller(topics.create_partitions)),
    Handler(DeleteGroupsRequest, 0, 2, group_admin.delete_groups),
    Handler(ElectLeadersRequest, 0, 2, by_controller(cluster.elect_leaders)),
    Handler(IncrementalAlterConfigsRequest, 0, 1, by_controller(configs.incremental_alter_configs)),
    Handler(AlterPartitionReassignmentsRequest, 0, 1, by_controller(cluster.alter_partition_reassignments)),
    Handler(ListPartitionReassignmentsRequest, 0, 0, cluster.list_partition_reassignments),
    Handler(AlterPartitionRequest, 2, 3, replication.alter_partition, brokers_only_since=0),
    Handler(UpdateFeaturesRequest, 0, 2, by_controller(cluster.update_features)),
    Handler(OffsetDeleteRequest, 0, 0, group_admin.offset_delete),
    Handler(DescribeClusterRequest, 0, 2, cluster.describe_cluster),
    Handler(DescribeProducersRequest, 0, 0, transaction_admin.describe_producers),
    Handler(BrokerHeartbeatRequest, 0, 2, replication.broker_heartbeat, brokers_only_since=0),
    Handler(UnregisterBrokerRequest, 0, 0, by_controller(cluster.unregister_broker)),
    Handler(DescribeTransactionsRequest, 0, 0, transaction_admin.describe_transactions),
    Handler(ListTransactionsRequest, 0, 2, transaction_admin.list_transactions),
    Handler(AllocateProducerIdsRequest, 0, 0, replication.allocate_ids, brokers_only_since=0),
    Handler(AssignReplicasToDirsRequest, 0, 0, replication.assign_replicas_to_dirs, brokers_only_since=0),
    Handler(ListConfigResourcesRequest, 0, 1, configs.list_config_resources),
    Handler(ConsumerGroupHeartbeatRequest, 0, 1, consumer_groups.consumer_group_heartbeat),
    Handler(ConsumerGroupDescribeRequest, 0, 1, consumer_groups.consumer_group_describe),
    Handler(DescribeTopicPartitionsRequest, 0, 0, topic_partitions.describe_topic_partitions),
    Handler(ShareGroupHeartbeatRequest, 1, 1, share_groups.share_group_heartbeat),
    Handler(ShareGroupDescribeRequest, 1, 1, share_groups.share_group_describe),
    Handler(ShareFetchRequest, 1, 2, share_fetch.share_fetch),
    Handler(ShareAcknowledgeRequest, 1, 2, share_acknowledge.share_acknowledge),
    Handler(InitializeShareGroupStateRequest, 0, 0, share_state.initialize_state, brokers_only_since=0),
    Handler(ReadShareGroupStateRequest, 0, 0, share_state.read_state, brokers_only_since=0),
    Handler(WriteShareGroupStateRequest, 0, 1, share_state.write_state, brokers_only_since=0),
    Handler(DeleteShareGroupStateRequest, 0, 0, share_state.delete_state, brokers_only_since=0),
    Handler(ReadShareGroupStateSummaryRequest, 0, 1, share_state.read_summary, brokers_only_since=0),
    Handler(DescribeShareGroupOffsetsRequest, 0, 1, share_offsets.describe_share_group_offsets),
    Handler(AlterShareGroupOffsetsRequest, 0, 0, share_offsets.alter_share_group_offsets),
    Handler(DeleteShareGroupOffsetsRequest, 0, 0, share_offsets.delete_share_group_offsets),
    Handler(StreamsGroupHeartbeatRequest, 0, 0, streams_groups.streams_group_heartbeat),
    Handler(StreamsGroupDescribeRequest, 0, 0, streams_groups.streams_group_describe),
)


def _sliced(row: Handler) -> Handler:
    """A row whose requests are served in parts when they have many elements."""
    slicing = SLICING.get(row.request_class)
    if slicing is None:
        return row
    function = in_slices(row.function, *slicing.cuts, of=slicing.of, always=slicing.always)
    if slicing.check is not None:
        function = slicing.check(function)
    return (
        row._replace(in_turns=function)
        if slicing.only_heavy
        else row._replace(function=function, in_turns=function)
    )


HANDLERS = tuple(_sliced(row) for row in _ROWS)
