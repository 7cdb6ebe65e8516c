"""The table of handlers. It *is* the ApiVersions response and the table in COMPATIBILITY.md.

An API is listed when a real client's test of it passes, with its supported versions.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from barnabas.handlers import (
    cluster,
    envelope,
    fetch,
    find_coordinator,
    log_dirs,
    metadata,
    offsets,
    produce,
    replication,
    topic_partitions,
    topics,
    versions,
)
from barnabas.handlers.authorization import RULES
from barnabas.handlers.configuration.alter_configs import alter_configs, incremental_alter_configs
from barnabas.handlers.configuration.describe_configs import describe_configs, list_config_resources
from barnabas.handlers.forwarding import by_controller
from barnabas.handlers.groups import admin as group_admin
from barnabas.handlers.groups import classic as groups
from barnabas.handlers.groups import consumer as consumer_groups
from barnabas.handlers.groups import offsets as group_offsets
from barnabas.handlers.groups import share as share_groups
from barnabas.handlers.groups import streams as streams_groups
from barnabas.handlers.mirror.appends import append_mirrored
from barnabas.handlers.mirror.topics import alter_mirror_topics, describe_mirrors, settle_mirror_topics
from barnabas.handlers.quotas import CARRIED, MUTATIONS
from barnabas.handlers.security import acls, client_quotas, sasl, scram_credentials, tokens
from barnabas.handlers.share import fetch as share_fetch
from barnabas.handlers.share import offsets as share_offsets
from barnabas.handlers.share import requests as share_acknowledge
from barnabas.handlers.share import state as share_state
from barnabas.handlers.slicing import CHUNKING, Chunking
from barnabas.handlers.telemetry import handler as telemetry
from barnabas.handlers.transactions import admin as transaction_admin
from barnabas.handlers.transactions import markers as transaction_markers
from barnabas.handlers.transactions import offsets as transactional_offsets
from barnabas.handlers.transactions import producers as transactions
from barnabas.network.requests import Handler, HandlerFunction, QuotaBytes
from barnabas.network.requests.request_parts import in_chunks
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
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
from barnabas.protocol.messages.mirror import (
    AlterMirrorsRequest,
    AppendMirroredRequest,
    DescribeMirrorsRequest,
    SettleMirrorsRequest,
)
from barnabas.protocol.messages.offsets import (
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest
from barnabas.protocol.messages.replication import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    EnvelopeRequest,
)
from barnabas.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
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
from barnabas.protocol.messages.streams import (
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from barnabas.protocol.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from barnabas.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
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

_ROWS: tuple[Handler, ...] = (
    # librdkafka's feature check requires Produce 0 (KAFKA-18659); 0 to 2 are refused, as in Kafka.
    Handler(ProduceRequest, 3, 13, produce.produce, advertised_min=0, shortcut=produce.known_heads),
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
    Handler(SaslHandshakeRequest, 0, 1, sasl.sasl_handshake),
    Handler(ApiVersionsRequest, 0, 5, versions.api_versions),
    Handler(CreateTopicsRequest, 2, 7, topics.create_topics, is_forwarded=True),
    Handler(DeleteTopicsRequest, 1, 6, topics.delete_topics, is_forwarded=True),
    Handler(DeleteRecordsRequest, 0, 2, offsets.delete_records),
    # Kafka advertises 6 (KIP-939) only when configured; clients of 4.3 do not use it by default, the
    # exactly-once sink does.
    Handler(InitProducerIdRequest, 0, 6, transactions.init_producer_id),
    Handler(OffsetForLeaderEpochRequest, 2, 4, offsets.offset_for_leader_epoch),
    Handler(AddPartitionsToTxnRequest, 0, 5, transactions.add_partitions_to_txn, brokers_only_since=4),
    Handler(AddOffsetsToTxnRequest, 0, 4, transactions.add_offsets_to_txn),
    Handler(EndTxnRequest, 0, 5, transactions.end_txn),
    Handler(WriteTxnMarkersRequest, 1, 2, transaction_markers.write_txn_markers),
    Handler(TxnOffsetCommitRequest, 0, 6, transactional_offsets.txn_offset_commit),
    Handler(DescribeAclsRequest, 1, 3, acls.describe_acls),
    Handler(CreateAclsRequest, 1, 3, acls.create_acls, in_turns=acls.create_acls, is_forwarded=True),
    Handler(DeleteAclsRequest, 1, 3, acls.delete_acls, in_turns=acls.delete_acls, is_forwarded=True),
    Handler(DescribeConfigsRequest, 1, 4, describe_configs, in_turns=describe_configs),
    Handler(AlterConfigsRequest, 0, 2, alter_configs, is_forwarded=True),
    Handler(AlterReplicaLogDirsRequest, 1, 2, log_dirs.alter_replica_log_dirs),
    Handler(DescribeLogDirsRequest, 1, 5, log_dirs.describe_log_dirs),
    Handler(SaslAuthenticateRequest, 0, 2, sasl.sasl_authenticate),
    Handler(CreatePartitionsRequest, 0, 3, topics.create_partitions, is_forwarded=True),
    Handler(CreateDelegationTokenRequest, 1, 3, tokens.create_delegation_token, is_forwarded=True),
    Handler(RenewDelegationTokenRequest, 1, 2, tokens.renew_delegation_token, is_forwarded=True),
    Handler(ExpireDelegationTokenRequest, 1, 2, tokens.expire_delegation_token, is_forwarded=True),
    Handler(DescribeDelegationTokenRequest, 1, 3, tokens.describe_delegation_token),
    Handler(DeleteGroupsRequest, 0, 3, group_admin.delete_groups),
    Handler(ElectLeadersRequest, 0, 2, cluster.elect_leaders, is_forwarded=True),
    Handler(IncrementalAlterConfigsRequest, 0, 1, incremental_alter_configs, is_forwarded=True),
    Handler(
        AlterPartitionReassignmentsRequest, 0, 1, cluster.alter_partition_reassignments, is_forwarded=True
    ),
    Handler(ListPartitionReassignmentsRequest, 0, 0, cluster.list_partition_reassignments),
    Handler(DescribeClientQuotasRequest, 0, 1, client_quotas.describe_client_quotas),
    Handler(AlterClientQuotasRequest, 0, 1, client_quotas.alter_client_quotas, is_forwarded=True),
    Handler(DescribeUserScramCredentialsRequest, 0, 0, scram_credentials.describe_user_scram_credentials),
    Handler(
        AlterUserScramCredentialsRequest,
        0,
        0,
        scram_credentials.alter_user_scram_credentials,
        is_forwarded=True,
    ),
    Handler(AlterPartitionRequest, 2, 3, replication.alter_partition, brokers_only_since=0),
    Handler(UpdateFeaturesRequest, 0, 2, cluster.update_features, is_forwarded=True),
    Handler(EnvelopeRequest, 0, 0, envelope.envelope, brokers_only_since=0),
    Handler(OffsetDeleteRequest, 0, 0, group_admin.offset_delete),
    Handler(DescribeClusterRequest, 0, 2, cluster.describe_cluster),
    Handler(DescribeProducersRequest, 0, 0, transaction_admin.describe_producers),
    Handler(BrokerHeartbeatRequest, 0, 2, replication.broker_heartbeat, brokers_only_since=0),
    Handler(UnregisterBrokerRequest, 0, 0, cluster.unregister_broker, is_forwarded=True),
    Handler(DescribeTransactionsRequest, 0, 0, transaction_admin.describe_transactions),
    Handler(ListTransactionsRequest, 0, 2, transaction_admin.list_transactions),
    Handler(AllocateProducerIdsRequest, 0, 0, replication.allocate_ids, brokers_only_since=0),
    Handler(GetTelemetrySubscriptionsRequest, 0, 0, telemetry.get_telemetry_subscriptions),
    Handler(PushTelemetryRequest, 0, 0, telemetry.push_telemetry),
    Handler(AssignReplicasToDirsRequest, 0, 0, replication.assign_replicas_to_dirs, brokers_only_since=0),
    Handler(ListConfigResourcesRequest, 0, 1, list_config_resources),
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
    Handler(StreamsGroupHeartbeatRequest, 0, 1, streams_groups.streams_group_heartbeat),
    Handler(StreamsGroupDescribeRequest, 0, 1, streams_groups.streams_group_describe),
    Handler(
        StreamsGroupTopologyDescriptionUpdateRequest,
        0,
        0,
        streams_groups.streams_group_topology_description_update,
    ),
    Handler(AppendMirroredRequest, 0, 0, append_mirrored),
    Handler(AlterMirrorsRequest, 0, 0, alter_mirror_topics, is_forwarded=True),
    Handler(DescribeMirrorsRequest, 0, 0, describe_mirrors),
    Handler(SettleMirrorsRequest, 0, 0, settle_mirror_topics, brokers_only_since=0),
)


def _chunked(row: Handler) -> Handler:
    """Return a row that serves requests of many elements in parts."""
    chunking = CHUNKING.get(row.request_class)
    if chunking is None:
        return row
    cut_up = partial(_in_chunks, chunking)
    function, in_turns = cut_up(row.function)
    return row._replace(function=function, in_turns=in_turns, bare=row.function, chunked=cut_up)


def _in_chunks(chunking: Chunking, function: HandlerFunction) -> tuple[HandlerFunction, HandlerFunction]:
    """Return the functions for small requests, and for those of many elements."""
    in_turns = in_chunks(function, *chunking.cuts, of=chunking.of, always=chunking.always)
    if chunking.check is not None:
        in_turns = chunking.check(in_turns)
    return function if chunking.only_heavy else in_turns, in_turns


def _with_stages(row: Handler) -> Handler:
    key = row.request_class.api_key
    if row.is_forwarded:
        row = row._replace(
            function=by_controller(cast(Any, row.function)),
            in_turns=None if row.in_turns is None else by_controller(cast(Any, row.in_turns)),
        )
    return row._replace(
        rule=RULES.get(ApiKey(key)),
        mutations=MUTATIONS.get(ApiKey(key), ()),
        carried=CARRIED.get(ApiKey(key), QuotaBytes()),
    )


HANDLERS = tuple(_chunked(_with_stages(row)) for row in _ROWS)
