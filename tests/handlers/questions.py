"""A request of every API that would change or reveal something if served without authorization."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from barnabas.broker.broker import Broker
from barnabas.common.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages import (
    acls,
    cluster,
    configs,
    consumer,
    fetch,
    groups,
    metadata,
    mirror,
    offsets,
    produce,
    quotas,
    replication,
    sasl,
    share,
    share_state,
    streams,
    telemetry,
    tokens,
    topics,
    transactions,
)
from barnabas.protocol.schema import Message
from barnabas.records.builder import build_batch
from barnabas.records.record import Record

TOPIC, OTHER, GROUP, TRANSACTION = "guarded", "public", "g", "t"
NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NO_TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NO_TOKEN = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED  # for unauthenticated clients
NOTHING = None  # no error: denied resources are hidden
NOT_HERE = {ErrorCode.ILLEGAL_SASL_STATE}  # the listener does not authenticate
OPEN_TO_EVERYONE = frozenset(ErrorCode) - {NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION}
SECRET = b"secret"
PRODUCER = 4711
EVE = "eve"


def topic_id(broker: Broker, name: str = TOPIC) -> bytes:
    return broker.image.topics[name].topic_id


def batch() -> bytes:
    return bytes(build_batch([Record(0, 1_700_000_000_000, b"key", SECRET)]))


def produced(broker: Broker, version: int, *names: str, acks: int = 1) -> produce.ProduceRequest:
    data = [
        produce.TopicProduceData(name, topic_id(broker, name), [produce.PartitionProduceData(0, batch())])
        for name in names or (TOPIC,)
    ]
    return produce.ProduceRequest(None, acks, 2000, data)


def fetched(broker: Broker, version: int, *names: str) -> fetch.FetchRequest:
    return fetch.FetchRequest(
        max_wait_ms=0,
        topics=[
            fetch.FetchTopic(
                topic=name,
                topic_id=topic_id(broker, name),
                partitions=[fetch.FetchPartition(partition=0, partition_max_bytes=10_000)],
            )
            for name in names or (TOPIC,)
        ],
        session_epoch=-1,
    )


def found(version: int, key_type: int, key: str) -> metadata.FindCoordinatorRequest:
    request = metadata.FindCoordinatorRequest(key_type=key_type if version else 0)
    if version >= 4:
        request.coordinator_keys = [key]
    else:
        request.key = key
    return request


def fetched_offsets(version: int) -> offsets.OffsetFetchRequest:
    if version < 8:
        return offsets.OffsetFetchRequest(GROUP, [offsets.OffsetFetchRequestTopic(TOPIC, [0])])
    wanted = offsets.OffsetFetchRequestTopics(name=TOPIC if version < 10 else "", partition_indexes=[0])
    return offsets.OffsetFetchRequest(groups=[offsets.OffsetFetchRequestGroup(GROUP, topics=[wanted])])


def committed(broker: Broker, version: int) -> offsets.OffsetCommitRequest:
    partition = offsets.OffsetCommitRequestPartition(0, 5, committed_metadata="")
    return offsets.OffsetCommitRequest(
        GROUP, topics=[offsets.OffsetCommitRequestTopic(TOPIC, topic_id(broker), [partition])]
    )


def deleted(version: int, name: str = TOPIC) -> topics.DeleteTopicsRequest:
    if version >= 6:
        return topics.DeleteTopicsRequest(topics=[topics.DeleteTopicState(name)], timeout_ms=1000)
    return topics.DeleteTopicsRequest(topic_names=[name], timeout_ms=1000)


def added(version: int) -> transactions.AddPartitionsToTxnRequest:
    wanted = [transactions.AddPartitionsToTxnTopic(TOPIC, [0])]
    if version < 4:
        return transactions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTION, v3_and_below_topics=wanted
        )
    return transactions.AddPartitionsToTxnRequest(
        transactions=[transactions.AddPartitionsToTxnTransaction(TRANSACTION, topics=wanted)]
    )


def marker() -> transactions.WriteTxnMarkersRequest:
    place = transactions.WritableTxnMarkerTopic(TOPIC, [0])
    return transactions.WriteTxnMarkersRequest([transactions.WritableTxnMarker(PRODUCER, 0, False, [place])])


def of_configs(request: Any, resource: Any, **more: Any) -> Message:
    message: Message = request(resources=[resource(2, TOPIC, **more), resource(4, "1", **more)])
    return message


def of_shares(broker: Broker, request: Any, topic: Any, partition: Any) -> Message:
    message: Message = request(GROUP, [topic(topic_id(broker), [partition(0)])])
    return message


def of_share_state(name: str) -> Callable[[Broker, int], Message]:
    def make(broker: Broker, version: int) -> Message:
        short = name.replace("ShareGroup", "")
        return of_shares(
            broker,
            getattr(share_state, f"{name}Request"),
            getattr(share_state, f"{short}Data"),
            getattr(share_state, f"{name}PartitionData"),
        )

    return make


def mirrored(broker: Broker) -> mirror.AppendMirroredRequest:
    data = mirror.MirroredPartition(index=0, records=batch())
    return mirror.AppendMirroredRequest(topics=[mirror.MirroredTopic(topic_id(broker), partitions=[data])])


Question = tuple[Callable[[Broker, int], Message], Collection[ErrorCode] | None]

QUESTIONS: dict[ApiKey, Question] = {
    ApiKey.PRODUCE: (produced, {NO_TOPIC}),
    ApiKey.FETCH: (fetched, {NO_TOPIC}),
    ApiKey.LIST_OFFSETS: (
        lambda broker, version: offsets.ListOffsetsRequest(
            topics=[offsets.ListOffsetsTopic(TOPIC, [offsets.ListOffsetsPartition(0, timestamp=-1)])]
        ),
        {NO_TOPIC},
    ),
    ApiKey.METADATA: (
        lambda broker, version: metadata.MetadataRequest([metadata.MetadataRequestTopic(name=TOPIC)]),
        {NO_TOPIC},
    ),
    ApiKey.OFFSET_COMMIT: (committed, {NO_GROUP}),
    ApiKey.OFFSET_FETCH: (lambda broker, version: fetched_offsets(version), {NO_GROUP}),
    ApiKey.FIND_COORDINATOR: (lambda broker, version: found(version, 0, GROUP), {NO_GROUP}),
    ApiKey.JOIN_GROUP: (
        lambda broker, version: groups.JoinGroupRequest(
            GROUP, 6000, 6000, "", None, "consumer", [groups.JoinGroupRequestProtocol("range", b"")]
        ),
        {NO_GROUP},
    ),
    ApiKey.HEARTBEAT: (lambda broker, version: groups.HeartbeatRequest(GROUP), {NO_GROUP}),
    ApiKey.LEAVE_GROUP: (lambda broker, version: groups.LeaveGroupRequest(GROUP), {NO_GROUP}),
    ApiKey.SYNC_GROUP: (lambda broker, version: groups.SyncGroupRequest(GROUP), {NO_GROUP}),
    ApiKey.DESCRIBE_GROUPS: (lambda broker, version: groups.DescribeGroupsRequest([GROUP]), {NO_GROUP}),
    ApiKey.LIST_GROUPS: (lambda broker, version: groups.ListGroupsRequest(), NOTHING),
    ApiKey.SASL_HANDSHAKE: (lambda broker, version: sasl.SaslHandshakeRequest("PLAIN"), NOT_HERE),
    ApiKey.SASL_AUTHENTICATE: (lambda broker, version: sasl.SaslAuthenticateRequest(b""), NOT_HERE),
    ApiKey.API_VERSIONS: (lambda broker, version: metadata.ApiVersionsRequest("a", "1"), NOTHING),
    ApiKey.CREATE_TOPICS: (
        lambda broker, version: topics.CreateTopicsRequest([topics.CreatableTopic("new", 1, 1)]),
        {NO_TOPIC},
    ),
    ApiKey.DELETE_TOPICS: (lambda broker, version: deleted(version), {NO_TOPIC}),
    ApiKey.DELETE_RECORDS: (
        lambda broker, version: topics.DeleteRecordsRequest(
            [topics.DeleteRecordsTopic(TOPIC, [topics.DeleteRecordsPartition(0, -1)])], 1000
        ),
        {NO_TOPIC},
    ),
    ApiKey.INIT_PRODUCER_ID: (
        lambda broker, version: transactions.InitProducerIdRequest(TRANSACTION, 1000),
        {NO_TRANSACTION},
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        lambda broker, version: offsets.OffsetForLeaderEpochRequest(
            topics=[offsets.OffsetForLeaderTopic(TOPIC, [offsets.OffsetForLeaderPartition(0)])]
        ),
        {NO_TOPIC},
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        lambda broker, version: added(version),
        {NO_TRANSACTION, NO_CLUSTER},
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (
        lambda broker, version: transactions.AddOffsetsToTxnRequest(TRANSACTION, 1, 0, GROUP),
        {NO_TRANSACTION},
    ),
    ApiKey.END_TXN: (
        lambda broker, version: transactions.EndTxnRequest(TRANSACTION, 1, 0, True),
        {NO_TRANSACTION},
    ),
    ApiKey.WRITE_TXN_MARKERS: (lambda broker, version: marker(), {NO_CLUSTER}),
    ApiKey.TXN_OFFSET_COMMIT: (
        lambda broker, version: transactions.TxnOffsetCommitRequest(
            TRANSACTION,
            GROUP,
            topics=[
                transactions.TxnOffsetCommitRequestTopic(
                    name=TOPIC,
                    topic_id=topic_id(broker),
                    partitions=[transactions.TxnOffsetCommitRequestPartition(0, 5, committed_metadata="")],
                )
            ],
        ),
        {NO_TRANSACTION},
    ),
    ApiKey.DESCRIBE_ACLS: (
        lambda broker, version: acls.DescribeAclsRequest(1, None, 1, None, None, 1, 1),
        {NO_CLUSTER},
    ),
    ApiKey.CREATE_ACLS: (
        lambda broker, version: acls.CreateAclsRequest(
            [acls.AclCreation(2, TOPIC, 3, f"User:{EVE}", "*", 2, 3)]
        ),
        {NO_CLUSTER},
    ),
    ApiKey.DELETE_ACLS: (
        lambda broker, version: acls.DeleteAclsRequest([acls.DeleteAclsFilter(1, None, 1, None, None, 1, 1)]),
        {NO_CLUSTER},
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: (
        lambda broker, version: tokens.CreateDelegationTokenRequest(max_lifetime_ms=-1),
        {NO_TOKEN},
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: (
        lambda broker, version: tokens.RenewDelegationTokenRequest(b"x", 1),
        {NO_TOKEN},
    ),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (
        lambda broker, version: tokens.ExpireDelegationTokenRequest(b"x", -1),
        {NO_TOKEN},
    ),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (
        lambda broker, version: tokens.DescribeDelegationTokenRequest(None),
        {NO_TOKEN},
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (
        lambda broker, version: quotas.DescribeClientQuotasRequest(),
        {NO_CLUSTER},
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: (
        lambda broker, version: quotas.AlterClientQuotasRequest(
            [
                quotas.AlterClientQuotasRequestEntryData(
                    [quotas.EntityData("user", EVE)], [quotas.OpData("request_percentage", 1000.0)]
                )
            ]
        ),
        {NO_CLUSTER},
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (
        lambda broker, version: sasl.DescribeUserScramCredentialsRequest(None),
        {NO_CLUSTER},
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (
        lambda broker, version: sasl.AlterUserScramCredentialsRequest(
            [], [sasl.ScramCredentialUpsertion(EVE, 1, 4096, b"salt", bytes(32))]
        ),
        {NO_CLUSTER},
    ),
    ApiKey.DESCRIBE_CONFIGS: (
        lambda broker, version: of_configs(
            configs.DescribeConfigsRequest, configs.DescribeConfigsResource, configuration_keys=None
        ),
        {NO_TOPIC, NO_CLUSTER},
    ),
    ApiKey.ALTER_CONFIGS: (
        lambda broker, version: of_configs(
            configs.AlterConfigsRequest, configs.AlterConfigsAlterConfigsResource
        ),
        {NO_TOPIC, NO_CLUSTER},
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (
        lambda broker, version: cluster.AlterReplicaLogDirsRequest(
            [cluster.AlterReplicaLogDir("/nowhere", [cluster.AlterReplicaLogDirTopic(TOPIC, [0])])]
        ),
        {NO_CLUSTER},
    ),
    ApiKey.DESCRIBE_LOG_DIRS: (
        lambda broker, version: cluster.DescribeLogDirsRequest(None),
        {NO_CLUSTER},
    ),
    ApiKey.CREATE_PARTITIONS: (
        lambda broker, version: topics.CreatePartitionsRequest(
            [topics.CreatePartitionsTopic(TOPIC, 5, None)], 1000
        ),
        {NO_TOPIC},
    ),
    ApiKey.DELETE_GROUPS: (lambda broker, version: groups.DeleteGroupsRequest([GROUP]), {NO_GROUP}),
    ApiKey.ELECT_LEADERS: (
        lambda broker, version: cluster.ElectLeadersRequest(
            topic_partitions=[cluster.TopicPartitions(TOPIC, [0])]
        ),
        {NO_CLUSTER},
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        lambda broker, version: of_configs(
            configs.IncrementalAlterConfigsRequest, configs.IncrementalAlterConfigsAlterConfigsResource
        ),
        {NO_TOPIC, NO_CLUSTER},
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        lambda broker, version: cluster.AlterPartitionReassignmentsRequest(
            topics=[cluster.ReassignableTopic(TOPIC, [cluster.ReassignablePartition(0, [1])])]
        ),
        {NO_CLUSTER},
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (
        lambda broker, version: cluster.ListPartitionReassignmentsRequest(topics=None),
        {NO_CLUSTER},
    ),
    ApiKey.OFFSET_DELETE: (
        lambda broker, version: offsets.OffsetDeleteRequest(
            GROUP, [offsets.OffsetDeleteRequestTopic(TOPIC, [offsets.OffsetDeleteRequestPartition(0)])]
        ),
        {NO_GROUP},
    ),
    ApiKey.ALTER_PARTITION: (
        lambda broker, version: replication.AlterPartitionRequest(broker.node_id, broker.broker_epoch),
        {NO_CLUSTER},
    ),
    ApiKey.UPDATE_FEATURES: (
        lambda broker, version: cluster.UpdateFeaturesRequest(
            feature_updates=[cluster.FeatureUpdateKey("x", 1)]
        ),
        {NO_CLUSTER},
    ),
    ApiKey.DESCRIBE_CLUSTER: (
        lambda broker, version: cluster.DescribeClusterRequest(include_cluster_authorized_operations=True),
        NOTHING,
    ),
    ApiKey.DESCRIBE_PRODUCERS: (
        lambda broker, version: transactions.DescribeProducersRequest(
            [transactions.TopicRequest(TOPIC, [0])]
        ),
        {NO_TOPIC},
    ),
    ApiKey.BROKER_HEARTBEAT: (
        lambda broker, version: replication.BrokerHeartbeatRequest(broker.node_id, want_shut_down=True),
        {NO_CLUSTER},
    ),
    ApiKey.UNREGISTER_BROKER: (
        lambda broker, version: cluster.UnregisterBrokerRequest(broker.node_id),
        {NO_CLUSTER},
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        lambda broker, version: transactions.DescribeTransactionsRequest([TRANSACTION]),
        {NO_TRANSACTION},
    ),
    ApiKey.LIST_TRANSACTIONS: (lambda broker, version: transactions.ListTransactionsRequest(), NOTHING),
    ApiKey.ALLOCATE_PRODUCER_IDS: (
        lambda broker, version: replication.AllocateProducerIdsRequest(broker.node_id, broker.broker_epoch),
        {NO_CLUSTER},
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        lambda broker, version: consumer.ConsumerGroupHeartbeatRequest(
            GROUP, "m", 0, rebalance_timeout_ms=1000, subscribed_topic_names=[TOPIC], topic_partitions=[]
        ),
        {NO_GROUP},
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (
        lambda broker, version: consumer.ConsumerGroupDescribeRequest([GROUP]),
        {NO_GROUP},
    ),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (
        lambda broker, version: telemetry.GetTelemetrySubscriptionsRequest(),
        NOTHING,
    ),
    ApiKey.PUSH_TELEMETRY: (lambda broker, version: telemetry.PushTelemetryRequest(), OPEN_TO_EVERYONE),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: (
        lambda broker, version: replication.AssignReplicasToDirsRequest(broker.node_id, broker.broker_epoch),
        {NO_CLUSTER},
    ),
    ApiKey.LIST_CONFIG_RESOURCES: (
        lambda broker, version: configs.ListConfigResourcesRequest(),
        {NO_CLUSTER},
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (
        lambda broker, version: metadata.DescribeTopicPartitionsRequest([metadata.TopicRequest(TOPIC)]),
        {NO_TOPIC},
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: (
        lambda broker, version: share.ShareGroupHeartbeatRequest(GROUP, "m", 0, None, [TOPIC]),
        {NO_GROUP},
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: (
        lambda broker, version: share.ShareGroupDescribeRequest([GROUP]),
        {NO_GROUP},
    ),
    ApiKey.SHARE_FETCH: (
        lambda broker, version: share.ShareFetchRequest(
            GROUP, "m", topics=[share.FetchTopic(topic_id(broker), [share.FetchPartition(0)])]
        ),
        {NO_GROUP},
    ),
    ApiKey.SHARE_ACKNOWLEDGE: (
        lambda broker, version: share.ShareAcknowledgeRequest(
            GROUP, "m", 1, topics=[share.AcknowledgeTopic(topic_id(broker), [share.AcknowledgePartition(0)])]
        ),
        {NO_GROUP},
    ),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (of_share_state("InitializeShareGroupState"), {NO_CLUSTER}),
    ApiKey.READ_SHARE_GROUP_STATE: (of_share_state("ReadShareGroupState"), {NO_CLUSTER}),
    ApiKey.WRITE_SHARE_GROUP_STATE: (of_share_state("WriteShareGroupState"), {NO_CLUSTER}),
    ApiKey.DELETE_SHARE_GROUP_STATE: (of_share_state("DeleteShareGroupState"), {NO_CLUSTER}),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (of_share_state("ReadShareGroupStateSummary"), {NO_CLUSTER}),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (
        lambda broker, version: streams.StreamsGroupHeartbeatRequest(group_id=GROUP, member_id="m"),
        {NO_GROUP},
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: (
        lambda broker, version: streams.StreamsGroupDescribeRequest([GROUP]),
        {NO_GROUP},
    ),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: (
        lambda broker, version: streams.StreamsGroupTopologyDescriptionUpdateRequest(
            GROUP, "m", 0, streams.TopologyDescription()
        ),
        {NO_GROUP},
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (
        lambda broker, version: share.DescribeShareGroupOffsetsRequest(
            [share.DescribeShareGroupOffsetsRequestGroup(GROUP, None)]
        ),
        {NO_GROUP},
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (
        lambda broker, version: share.AlterShareGroupOffsetsRequest(
            GROUP,
            [
                share.AlterShareGroupOffsetsRequestTopic(
                    TOPIC, [share.AlterShareGroupOffsetsRequestPartition(0, 1)]
                )
            ],
        ),
        {NO_GROUP},
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (
        lambda broker, version: share.DeleteShareGroupOffsetsRequest(
            GROUP, [share.DeleteShareGroupOffsetsRequestTopic(TOPIC)]
        ),
        {NO_GROUP},
    ),
    ApiKey.APPEND_MIRRORED: (lambda broker, version: mirrored(broker), {NO_CLUSTER}),
    ApiKey.ALTER_MIRRORS: (
        lambda broker, version: mirror.AlterMirrorsRequest(
            link="a",
            source_cluster_id="other",
            topics=[
                mirror.AlteredMirrorTopic(name=TOPIC, action=mirror.MirrorAction.CREATE, source_name=TOPIC)
            ],
        ),
        {NO_CLUSTER},
    ),
    ApiKey.DESCRIBE_MIRRORS: (
        lambda broker, version: mirror.DescribeMirrorsRequest([TOPIC]),
        {NO_TOPIC},
    ),
    ApiKey.SETTLE_MIRRORS: (
        lambda broker, version: mirror.SettleMirrorsRequest(
            broker.node_id, broker.broker_epoch, [mirror.SettledTopic(topic_id(broker))]
        ),
        {NO_CLUSTER},
    ),
}
