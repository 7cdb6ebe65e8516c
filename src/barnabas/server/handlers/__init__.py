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
from barnabas.protocol.schema import Message
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
from barnabas.server.routes import ELEMENTS_AT_ONCE, HandlerFunction
from barnabas.server.slices import ALL, TWICE, Cut, cut_at, in_slices

# Where requests of many elements are cut: the arrays of the request, those of the response, what names an element.
_OF_TOPICS = ("topics", "topics", ("name",))
_OF_TOPICS_OR_IDS = ("topics", "topics", ("name", "topic_id"))
_OF_TOPIC_IDS = ("topics", "results", ("topic_id",))
_OF_PARTITIONS = ("partitions", "partitions", ("partition_index",))
_OF_STATES = cut_at(_OF_TOPIC_IDS, ("partitions", "partitions", ("partition",)), repeats=ALL)
_OF_RESOURCES = cut_at(("resources", "responses", ("resource_type", "resource_name")), repeats=TWICE)


def _in_slices(
    request_class: type[Message],
    min_version: int,
    max_version: int,
    function: HandlerFunction,
    *cuts: Cut,
    of: int,
    always: bool = False,
    brokers_only_since: int | None = None,
) -> Handler:
    """A row for an API whose requests are served in parts of `of` elements."""
    cut = in_slices(function, *cuts, of=of, always=always)
    return Handler(
        request_class, min_version, max_version, cut, in_turns=cut, brokers_only_since=brokers_only_since
    )


HANDLERS: tuple[Handler, ...] = (
    # librdkafka's feature check wants to see Produce 0 (KAFKA-18659); 0 to 2 are refused, as by Kafka.
    Handler(
        ProduceRequest,
        3,
        13,
        produce.produce,
        advertised_min=0,
        in_turns=in_slices(
            produce.produce,
            cut_at(
                ("topic_data", "responses", ("name", "topic_id")),
                ("partition_data", "partition_responses", ("index",)),
                repeats=ALL,
            ),
            of=100,
        ),
    ),
    Handler(FetchRequest, 4, 18, fetch.fetch, in_turns=fetch.fetch_in_turns),
    _in_slices(
        ListOffsetsRequest,
        1,
        11,
        offsets.list_offsets,
        cut_at(_OF_TOPICS, _OF_PARTITIONS, repeats=TWICE),
        of=200,
    ),
    _in_slices(
        MetadataRequest, 0, 13, metadata.metadata, cut_at(("topics", "topics", ("topic_id", "name"))), of=200
    ),
    _in_slices(
        OffsetCommitRequest,
        2,
        10,
        group_offsets.offset_commit,
        cut_at(_OF_TOPICS_OR_IDS, _OF_PARTITIONS, repeats=ALL),
        of=500,
    ),
    _in_slices(
        OffsetFetchRequest,
        1,
        10,
        group_offsets.offset_fetch,
        cut_at(("groups", "groups", ("group_id",)), _OF_TOPICS_OR_IDS, ("partition_indexes", "partitions")),
        cut_at(_OF_TOPICS, ("partition_indexes", "partitions")),
        of=500,
        always=True,
    ),
    _in_slices(
        FindCoordinatorRequest,
        0,
        6,
        find_coordinator.find_coordinator,
        cut_at(("coordinator_keys", "coordinators")),
        of=200,
        always=True,
    ),
    Handler(JoinGroupRequest, 0, 9, groups.join_group),
    Handler(HeartbeatRequest, 0, 4, groups.heartbeat),
    Handler(LeaveGroupRequest, 0, 5, groups.leave_group),
    Handler(SyncGroupRequest, 0, 5, groups.sync_group),
    _in_slices(
        DescribeGroupsRequest,
        0,
        6,
        group_admin.describe_groups,
        cut_at(("groups", "groups")),
        of=10,
        always=True,
    ),
    Handler(ListGroupsRequest, 0, 5, group_admin.list_groups),
    Handler(ApiVersionsRequest, 0, 4, versions.api_versions),
    _in_slices(
        CreateTopicsRequest,
        2,
        7,
        by_controller(topics.create_topics),
        cut_at(("topics", "topics", ("name",)), repeats=TWICE),
        of=50,
    ),
    _in_slices(
        DeleteTopicsRequest,
        1,
        6,
        by_controller(topics.delete_topics),
        cut_at(("topics", "responses", ("name", "topic_id")), repeats=TWICE),
        cut_at(("topic_names", "responses"), repeats=TWICE),
        of=100,
    ),
    _in_slices(
        DeleteRecordsRequest, 0, 2, offsets.delete_records, cut_at(_OF_TOPICS, _OF_PARTITIONS), of=100
    ),
    # Kafka advertises 6 (KIP-939) only when told to; no client of 4.3 uses it unasked, the exactly-once sink does.
    Handler(InitProducerIdRequest, 0, 6, transactions.init_producer_id),
    _in_slices(
        OffsetForLeaderEpochRequest,
        2,
        4,
        offsets.offset_for_leader_epoch,
        cut_at(("topics", "topics", ("topic",)), ("partitions", "partitions", ("partition",))),
        of=500,
    ),
    # Partitions are added all or none, but of more than a thousand some parts may be and others not.
    _in_slices(
        AddPartitionsToTxnRequest,
        0,
        5,
        transactions.add_partitions_to_txn,
        cut_at(
            ("transactions", "results_by_transaction", ("transactional_id",)),
            ("topics", "topic_results", ("name",)),
            ("partitions", "results_by_partition"),
            repeats=ALL,
        ),
        cut_at(
            ("v3_and_below_topics", "results_by_topic_v3_and_below", ("name",)),
            ("partitions", "results_by_partition"),
            repeats=ALL,
        ),
        of=ELEMENTS_AT_ONCE,
        brokers_only_since=4,
    ),
    Handler(AddOffsetsToTxnRequest, 0, 4, transactions.add_offsets_to_txn),
    Handler(EndTxnRequest, 0, 5, transactions.end_txn),
    _in_slices(
        WriteTxnMarkersRequest,
        1,
        2,
        transactions.write_txn_markers,
        cut_at(
            ("markers", "markers", ("producer_id",)),
            ("topics", "topics", ("name",)),
            ("partition_indexes", "partitions"),
            repeats=ALL,
        ),
        of=100,
    ),
    _in_slices(
        TxnOffsetCommitRequest,
        0,
        5,
        transactional_offsets.txn_offset_commit,
        cut_at(_OF_TOPICS, _OF_PARTITIONS, repeats=ALL),
        of=500,
    ),
    Handler(DescribeConfigsRequest, 1, 4, configs.describe_configs, in_turns=configs.describe_configs),
    _in_slices(AlterConfigsRequest, 0, 2, by_controller(configs.alter_configs), _OF_RESOURCES, of=50),
    _in_slices(
        AlterReplicaLogDirsRequest,
        1,
        2,
        log_dirs.alter_replica_log_dirs,
        cut_at(("dirs", "results", ("path",)), ("topics", "partitions", ("name",)), ("partitions", "")),
        of=100,
    ),
    Handler(DescribeLogDirsRequest, 1, 5, log_dirs.describe_log_dirs),
    _in_slices(
        CreatePartitionsRequest,
        0,
        3,
        by_controller(topics.create_partitions),
        cut_at(("topics", "results", ("name",)), repeats=TWICE),
        of=100,
    ),
    _in_slices(
        DeleteGroupsRequest, 0, 2, group_admin.delete_groups, cut_at(("groups_names", "results")), of=50
    ),
    _in_slices(
        ElectLeadersRequest,
        0,
        2,
        by_controller(cluster.elect_leaders),
        cut_at(
            ("topic_partitions", "replica_election_results", ("topic",)), ("partitions", "partition_result")
        ),
        of=200,
    ),
    _in_slices(
        IncrementalAlterConfigsRequest,
        0,
        1,
        by_controller(configs.incremental_alter_configs),
        _OF_RESOURCES,
        of=50,
    ),
    _in_slices(
        AlterPartitionReassignmentsRequest,
        0,
        1,
        by_controller(cluster.alter_partition_reassignments),
        cut_at(("topics", "responses", ("name",)), _OF_PARTITIONS, repeats=ALL),
        of=200,
    ),
    # Kafka's tool names every partition when it describes topics.
    _in_slices(
        ListPartitionReassignmentsRequest,
        0,
        0,
        cluster.list_partition_reassignments,
        cut_at(_OF_TOPICS, ("partition_indexes", "partitions")),
        of=ELEMENTS_AT_ONCE,
    ),
    _in_slices(
        AlterPartitionRequest,
        2,
        3,
        replication.alter_partition,
        cut_at(("topics", "topics", ("topic_id",)), _OF_PARTITIONS, repeats=ALL),
        of=200,
        brokers_only_since=0,
    ),
    Handler(UpdateFeaturesRequest, 0, 2, by_controller(cluster.update_features)),
    _in_slices(
        OffsetDeleteRequest, 0, 0, group_admin.offset_delete, cut_at(_OF_TOPICS, _OF_PARTITIONS), of=500
    ),
    Handler(DescribeClusterRequest, 0, 2, cluster.describe_cluster),
    _in_slices(
        DescribeProducersRequest,
        0,
        0,
        transaction_admin.describe_producers,
        cut_at(_OF_TOPICS, ("partition_indexes", "partitions")),
        of=20,
        always=True,
    ),
    Handler(BrokerHeartbeatRequest, 0, 2, replication.broker_heartbeat, brokers_only_since=0),
    Handler(UnregisterBrokerRequest, 0, 0, by_controller(cluster.unregister_broker)),
    _in_slices(
        DescribeTransactionsRequest,
        0,
        0,
        transaction_admin.describe_transactions,
        cut_at(("transactional_ids", "transaction_states")),
        of=20,
        always=True,
    ),
    Handler(ListTransactionsRequest, 0, 2, transaction_admin.list_transactions),
    Handler(AllocateProducerIdsRequest, 0, 0, replication.allocate_ids, brokers_only_since=0),
    _in_slices(
        AssignReplicasToDirsRequest,
        0,
        0,
        replication.assign_replicas_to_dirs,
        cut_at(
            ("directories", "directories", ("id",)),
            ("topics", "topics", ("topic_id",)),
            _OF_PARTITIONS,
            repeats=ALL,
        ),
        of=200,
        brokers_only_since=0,
    ),
    Handler(ListConfigResourcesRequest, 0, 1, configs.list_config_resources),
    Handler(ConsumerGroupHeartbeatRequest, 0, 1, consumer_groups.consumer_group_heartbeat),
    _in_slices(
        ConsumerGroupDescribeRequest,
        0,
        1,
        consumer_groups.consumer_group_describe,
        cut_at(("group_ids", "groups")),
        of=10,
        always=True,
    ),
    Handler(DescribeTopicPartitionsRequest, 0, 0, topic_partitions.describe_topic_partitions),
    Handler(ShareGroupHeartbeatRequest, 1, 1, share_groups.share_group_heartbeat),
    _in_slices(
        ShareGroupDescribeRequest,
        1,
        1,
        share_groups.share_group_describe,
        cut_at(("group_ids", "groups")),
        of=10,
        always=True,
    ),
    Handler(ShareFetchRequest, 1, 2, share_fetch.share_fetch),
    Handler(ShareAcknowledgeRequest, 1, 2, share_acknowledge.share_acknowledge),
    _in_slices(
        InitializeShareGroupStateRequest,
        0,
        0,
        share_state.initialize_state,
        _OF_STATES,
        of=100,
        brokers_only_since=0,
    ),
    _in_slices(
        ReadShareGroupStateRequest, 0, 0, share_state.read_state, _OF_STATES, of=100, brokers_only_since=0
    ),
    _in_slices(
        WriteShareGroupStateRequest, 0, 1, share_state.write_state, _OF_STATES, of=100, brokers_only_since=0
    ),
    _in_slices(
        DeleteShareGroupStateRequest, 0, 0, share_state.delete_state, _OF_STATES, of=100, brokers_only_since=0
    ),
    _in_slices(
        ReadShareGroupStateSummaryRequest,
        0,
        1,
        share_state.read_summary,
        _OF_STATES,
        of=100,
        brokers_only_since=0,
    ),
    _in_slices(
        DescribeShareGroupOffsetsRequest,
        0,
        1,
        share_offsets.describe_share_group_offsets,
        cut_at(
            ("groups", "groups", ("group_id",)),
            ("topics", "topics", ("topic_name",)),
            ("partitions", "partitions"),
        ),
        of=100,
        always=True,
    ),
    _in_slices(
        AlterShareGroupOffsetsRequest,
        0,
        0,
        share_offsets.alter_share_group_offsets,
        cut_at(("topics", "responses", ("topic_name",)), _OF_PARTITIONS),
        of=100,
    ),
    _in_slices(
        DeleteShareGroupOffsetsRequest,
        0,
        0,
        share_offsets.delete_share_group_offsets,
        cut_at(("topics", "responses", ("topic_name",))),
        of=100,
    ),
    Handler(StreamsGroupHeartbeatRequest, 0, 0, streams_groups.streams_group_heartbeat),
    _in_slices(
        StreamsGroupDescribeRequest,
        0,
        0,
        streams_groups.streams_group_describe,
        cut_at(("group_ids", "groups")),
        of=10,
        always=True,
    ),
)
