"""Requests of every client API on partly authorized resources, for random ACLs.

None of them changes what another one is about: what would is only asked for where it cannot succeed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from barnabas.protocol.messages import (
    cluster,
    configs,
    consumer,
    fetch,
    groups,
    metadata,
    offsets,
    produce,
    share,
    streams,
    telemetry,
    topics,
    transactions,
)
from barnabas.protocol.schema import Message
from barnabas.records.builder import build_batch
from barnabas.records.record import Record

TOPICS = ("orders", "orders.eu")
NOT_THERE = "payments"
NAMES = (*TOPICS, NOT_THERE)
GROUPS = ("readers", "readers.eu")
TRANSACTION = "moving"
BOGUS = 4711  # an unknown producer id
NOW_MS = int(time.time() * 1000)  # it would delete old entries

Ids = Mapping[str, bytes]
Question = tuple[Message, int]
Make = Callable[[Ids, int], Message]


def _produce(ids: Ids, version: int, **more: Any) -> Message:
    data = [
        produce.TopicProduceData(name, ids[name], [produce.PartitionProduceData(0, _batch())])
        for name in (NAMES if version < 13 else TOPICS)
    ]
    return produce.ProduceRequest(more.get("transaction"), 1, 2000, data)


def _batch() -> bytes:
    return bytes(build_batch([Record(0, NOW_MS, b"key", b"value")]))


def _fetch(ids: Ids, version: int) -> Message:
    return fetch.FetchRequest(
        max_wait_ms=0,
        session_epoch=-1,
        topics=[
            fetch.FetchTopic(name, ids[name], [fetch.FetchPartition(partition=0, partition_max_bytes=100)])
            for name in NAMES
        ],
    )


def _metadata(ids: Ids, version: int) -> Message:
    rows = [metadata.MetadataRequestTopic(name=name) for name in NAMES]
    shows = {"include_topic_authorized_operations": True} if version >= 8 else {}
    return metadata.MetadataRequest(rows, False, **shows)


def _metadata_by_id(ids: Ids, version: int) -> Message:
    rows = [metadata.MetadataRequestTopic(ids[name], None) for name in NAMES]
    return metadata.MetadataRequest(rows, False)


def _offset_commit(ids: Ids, version: int) -> Message:
    partition = offsets.OffsetCommitRequestPartition(0, 5, committed_metadata="")
    rows = [offsets.OffsetCommitRequestTopic(name, ids[name], [partition]) for name in NAMES]
    return offsets.OffsetCommitRequest(GROUPS[0], topics=rows)


def _offset_fetch(ids: Ids, version: int) -> Message:
    if version < 8:
        rows = [offsets.OffsetFetchRequestTopic(name, [0]) for name in NAMES]
        return offsets.OffsetFetchRequest(GROUPS[0], rows)
    named = [offsets.OffsetFetchRequestTopics(name, ids[name], [0]) for name in NAMES]
    return offsets.OffsetFetchRequest(
        groups=[
            offsets.OffsetFetchRequestGroup(GROUPS[0], topics=named),
            offsets.OffsetFetchRequestGroup(GROUPS[1], topics=None),
        ]
    )


def _find_coordinator(key_type: int, *keys: str) -> Make:
    def make(ids: Ids, version: int) -> Message:
        if version >= 4:
            return metadata.FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
        return metadata.FindCoordinatorRequest(keys[0], key_type)

    return make


def _joining(ids: Ids, version: int) -> Message:
    rows = [groups.JoinGroupRequestProtocol("range", b"")]
    return groups.JoinGroupRequest("readers.joining", 6000, 6000, "nobody", None, "consumer", rows)


def _creatable(ids: Ids, version: int) -> Message:
    rows = [topics.CreatableTopic(name, 1, 1) for name in (*NAMES, "a b")]
    return topics.CreateTopicsRequest(rows, 10_000, validate_only=True)


def _added_partitions(ids: Ids, version: int) -> Message:
    rows = [transactions.AddPartitionsToTxnTopic(name, [0]) for name in NAMES]
    return transactions.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TRANSACTION,
        v3_and_below_producer_id=BOGUS,
        v3_and_below_topics=rows,
    )


def _transactional_offsets(ids: Ids, version: int) -> Message:
    partition = transactions.TxnOffsetCommitRequestPartition(0, 5, committed_metadata="")
    rows = [
        transactions.TxnOffsetCommitRequestTopic(name=name, topic_id=ids[name], partitions=[partition])
        for name in NAMES
    ]
    return transactions.TxnOffsetCommitRequest(TRANSACTION, GROUPS[1], BOGUS, 0, topics=rows)


def _configs(request: Any, resource: Any, **more: Any) -> Make:
    def make(ids: Ids, version: int) -> Message:
        rows = [resource(2, name, **more) for name in NAMES]
        message: Message = request([*rows, resource(4, "1", **more)])
        if hasattr(message, "validate_only"):
            message.validate_only = True
        return message

    return make


def _streams_heartbeat(ids: Ids, version: int) -> Message:
    store = streams.TopicInfo(TOPICS[1])
    part = streams.StreamsGroupHeartbeatSubtopology("0", [TOPICS[0]], state_changelog_topics=[store])
    return streams.StreamsGroupHeartbeatRequest(
        group_id="readers.streams",
        member_id="somebody",
        member_epoch=7,  # without a member: nothing joins
        rebalance_timeout_ms=1000,
        topology=streams.StreamsGroupHeartbeatTopology(0, [part]),
        process_id="process",
        client_tags=[],
    )


CASES: tuple[tuple[type[Message], Make, int, int], ...] = (
    (produce.ProduceRequest, _produce, 3, 13),
    (produce.ProduceRequest, lambda ids, v: _produce(ids, v, transaction=TRANSACTION), 3, 11),
    (fetch.FetchRequest, _fetch, 4, 17),
    (
        offsets.ListOffsetsRequest,
        lambda ids, v: offsets.ListOffsetsRequest(
            topics=[
                offsets.ListOffsetsTopic(name, [offsets.ListOffsetsPartition(0, timestamp=-2)])
                for name in NAMES
            ]
        ),
        1,
        10,
    ),
    (metadata.MetadataRequest, _metadata, 4, 13),
    (metadata.MetadataRequest, _metadata_by_id, 12, 13),
    (metadata.MetadataRequest, lambda ids, v: metadata.MetadataRequest(None), 1, 13),
    (offsets.OffsetCommitRequest, _offset_commit, 2, 10),
    (offsets.OffsetFetchRequest, _offset_fetch, 1, 10),
    (metadata.FindCoordinatorRequest, _find_coordinator(0, *GROUPS), 0, 6),
    (metadata.FindCoordinatorRequest, _find_coordinator(1, TRANSACTION), 1, 6),
    (groups.JoinGroupRequest, _joining, 2, 9),
    (groups.HeartbeatRequest, lambda ids, v: groups.HeartbeatRequest(GROUPS[0], 1, "nobody"), 0, 4),
    (
        groups.LeaveGroupRequest,
        lambda ids, v: (
            groups.LeaveGroupRequest(GROUPS[0], members=[groups.MemberIdentity("nobody")])
            if v >= 3
            else groups.LeaveGroupRequest(GROUPS[0], "nobody")
        ),
        0,
        5,
    ),
    (
        groups.SyncGroupRequest,
        lambda ids, v: groups.SyncGroupRequest(GROUPS[0], 1, "nobody", None, "consumer", "range"),
        0,
        5,
    ),
    (
        groups.DescribeGroupsRequest,
        lambda ids, v: groups.DescribeGroupsRequest(list(GROUPS), include_authorized_operations=v >= 3),
        0,
        6,
    ),
    (groups.ListGroupsRequest, lambda ids, v: groups.ListGroupsRequest(), 0, 5),
    (topics.CreateTopicsRequest, _creatable, 2, 7),
    (
        topics.DeleteTopicsRequest,
        lambda ids, v: (
            topics.DeleteTopicsRequest(
                topics=[topics.DeleteTopicState(NOT_THERE), topics.DeleteTopicState(None, ids[NOT_THERE])],
                timeout_ms=1000,
            )
            if v >= 6
            else topics.DeleteTopicsRequest(topic_names=[NOT_THERE], timeout_ms=1000)
        ),
        1,
        6,
    ),
    (
        topics.DeleteRecordsRequest,
        lambda ids, v: topics.DeleteRecordsRequest(
            [topics.DeleteRecordsTopic(name, [topics.DeleteRecordsPartition(0, 0)]) for name in NAMES], 1000
        ),
        0,
        2,
    ),
    (
        transactions.InitProducerIdRequest,
        lambda ids, v: (
            transactions.InitProducerIdRequest(TRANSACTION, 1000, BOGUS, 0)
            if v >= 3
            else transactions.InitProducerIdRequest(None, 1000)
        ),
        2,
        5,
    ),
    (
        transactions.InitProducerIdRequest,
        lambda ids, v: transactions.InitProducerIdRequest(None, 1000),
        2,
        5,
    ),
    (
        offsets.OffsetForLeaderEpochRequest,
        lambda ids, v: offsets.OffsetForLeaderEpochRequest(
            topics=[
                offsets.OffsetForLeaderTopic(name, [offsets.OffsetForLeaderPartition(0)]) for name in NAMES
            ]
        ),
        2,
        4,
    ),
    (transactions.AddPartitionsToTxnRequest, _added_partitions, 0, 3),
    (
        transactions.AddOffsetsToTxnRequest,
        lambda ids, v: transactions.AddOffsetsToTxnRequest(TRANSACTION, BOGUS, 0, GROUPS[0]),
        0,
        4,
    ),
    (
        transactions.EndTxnRequest,
        lambda ids, v: transactions.EndTxnRequest(TRANSACTION, BOGUS, 0, True),
        0,
        5,
    ),
    (transactions.TxnOffsetCommitRequest, _transactional_offsets, 0, 5),
    (
        configs.DescribeConfigsRequest,
        _configs(
            configs.DescribeConfigsRequest,
            configs.DescribeConfigsResource,
            configuration_keys=["retention.ms"],
        ),
        1,
        4,
    ),
    (
        configs.AlterConfigsRequest,
        _configs(configs.AlterConfigsRequest, configs.AlterConfigsAlterConfigsResource),
        0,
        2,
    ),
    (
        configs.IncrementalAlterConfigsRequest,
        _configs(configs.IncrementalAlterConfigsRequest, configs.IncrementalAlterConfigsAlterConfigsResource),
        0,
        1,
    ),
    (
        cluster.AlterReplicaLogDirsRequest,
        lambda ids, v: cluster.AlterReplicaLogDirsRequest(
            [
                cluster.AlterReplicaLogDir(
                    "/nowhere", [cluster.AlterReplicaLogDirTopic(name, [0]) for name in NAMES]
                )
            ]
        ),
        1,
        2,
    ),
    (cluster.DescribeLogDirsRequest, lambda ids, v: cluster.DescribeLogDirsRequest([]), 1, 4),
    (
        topics.CreatePartitionsRequest,
        lambda ids, v: topics.CreatePartitionsRequest(
            [topics.CreatePartitionsTopic(name, 2, None) for name in NAMES], 1000, True
        ),
        0,
        3,
    ),
    (groups.DeleteGroupsRequest, lambda ids, v: groups.DeleteGroupsRequest(["readers.none", "none"]), 0, 2),
    (
        cluster.ElectLeadersRequest,
        lambda ids, v: cluster.ElectLeadersRequest(
            topic_partitions=[cluster.TopicPartitions(name, [0]) for name in NAMES]
        ),
        0,
        2,
    ),
    (
        cluster.AlterPartitionReassignmentsRequest,
        lambda ids, v: cluster.AlterPartitionReassignmentsRequest(
            topics=[
                cluster.ReassignableTopic(name, [cluster.ReassignablePartition(0, [9])]) for name in NAMES
            ]
        ),
        0,
        1,
    ),
    (
        cluster.ListPartitionReassignmentsRequest,
        lambda ids, v: cluster.ListPartitionReassignmentsRequest(topics=None),
        0,
        0,
    ),
    (
        offsets.OffsetDeleteRequest,
        lambda ids, v: offsets.OffsetDeleteRequest(
            GROUPS[0],
            [
                offsets.OffsetDeleteRequestTopic(name, [offsets.OffsetDeleteRequestPartition(7)])
                for name in NAMES
            ],
        ),
        0,
        0,
    ),
    (
        cluster.UpdateFeaturesRequest,
        lambda ids, v: cluster.UpdateFeaturesRequest(feature_updates=[cluster.FeatureUpdateKey("nope", 1)]),
        0,
        1,
    ),
    (
        cluster.DescribeClusterRequest,
        lambda ids, v: cluster.DescribeClusterRequest(include_cluster_authorized_operations=True),
        0,
        2,
    ),
    (
        transactions.DescribeProducersRequest,
        lambda ids, v: transactions.DescribeProducersRequest(
            [transactions.TopicRequest(name, [0]) for name in NAMES]
        ),
        0,
        0,
    ),
    (cluster.UnregisterBrokerRequest, lambda ids, v: cluster.UnregisterBrokerRequest(99), 0, 0),
    (
        transactions.DescribeTransactionsRequest,
        lambda ids, v: transactions.DescribeTransactionsRequest([TRANSACTION, "other"]),
        0,
        0,
    ),
    (transactions.ListTransactionsRequest, lambda ids, v: transactions.ListTransactionsRequest(), 0, 1),
    (
        consumer.ConsumerGroupHeartbeatRequest,
        lambda ids, v: consumer.ConsumerGroupHeartbeatRequest(
            "readers.new",
            "somebody",
            7,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=list(TOPICS),
            topic_partitions=[],
        ),
        0,
        1,
    ),
    (
        consumer.ConsumerGroupDescribeRequest,
        lambda ids, v: consumer.ConsumerGroupDescribeRequest([*GROUPS, "watching"], True),
        0,
        1,
    ),
    (configs.ListConfigResourcesRequest, lambda ids, v: configs.ListConfigResourcesRequest(), 0, 0),
    (
        metadata.DescribeTopicPartitionsRequest,
        lambda ids, v: metadata.DescribeTopicPartitionsRequest(
            [metadata.TopicRequest(name) for name in NAMES]
        ),
        0,
        0,
    ),
    (
        metadata.DescribeTopicPartitionsRequest,
        lambda ids, v: metadata.DescribeTopicPartitionsRequest(),
        0,
        0,
    ),
    (
        share.ShareGroupHeartbeatRequest,
        lambda ids, v: share.ShareGroupHeartbeatRequest("readers.share", "somebody", 7, None, list(TOPICS)),
        1,
        1,
    ),
    (
        share.ShareGroupDescribeRequest,
        lambda ids, v: share.ShareGroupDescribeRequest(["readers.share", "none"], True),
        1,
        1,
    ),
    (
        share.ShareFetchRequest,
        lambda ids, v: share.ShareFetchRequest(
            "readers.share",
            "somebody",
            7,
            topics=[share.FetchTopic(ids[name], [share.FetchPartition(0)]) for name in NAMES],
        ),
        1,
        1,
    ),
    (
        share.ShareAcknowledgeRequest,
        lambda ids, v: share.ShareAcknowledgeRequest(
            "readers.share",
            "somebody",
            7,
            topics=[share.AcknowledgeTopic(ids[name], [share.AcknowledgePartition(0)]) for name in NAMES],
        ),
        1,
        1,
    ),
    (streams.StreamsGroupHeartbeatRequest, _streams_heartbeat, 0, 0),
    (
        streams.StreamsGroupDescribeRequest,
        lambda ids, v: streams.StreamsGroupDescribeRequest(["readers.streams", "none"], True),
        0,
        0,
    ),
    (
        share.DescribeShareGroupOffsetsRequest,
        lambda ids, v: share.DescribeShareGroupOffsetsRequest(
            [
                share.DescribeShareGroupOffsetsRequestGroup(
                    "readers.share",
                    [share.DescribeShareGroupOffsetsRequestTopic(name, [0]) for name in NAMES],
                ),
                share.DescribeShareGroupOffsetsRequestGroup("none", None),
            ]
        ),
        0,
        0,
    ),
    (
        share.AlterShareGroupOffsetsRequest,
        lambda ids, v: share.AlterShareGroupOffsetsRequest(
            "readers.none",
            [
                share.AlterShareGroupOffsetsRequestTopic(
                    name, [share.AlterShareGroupOffsetsRequestPartition(0, 1)]
                )
                for name in TOPICS
            ],
        ),
        0,
        0,
    ),
    (
        share.DeleteShareGroupOffsetsRequest,
        lambda ids, v: share.DeleteShareGroupOffsetsRequest(
            "readers.none", [share.DeleteShareGroupOffsetsRequestTopic(name) for name in NAMES]
        ),
        0,
        0,
    ),
    (
        telemetry.GetTelemetrySubscriptionsRequest,
        lambda ids, v: telemetry.GetTelemetrySubscriptionsRequest(),
        0,
        0,
    ),
)


def deletions(ids: Ids) -> Iterator[Question]:
    """Of a topic that is there: for clients that may not delete it."""
    yield topics.DeleteTopicsRequest(topic_names=[TOPICS[0], NOT_THERE], timeout_ms=1000), 5
    for state in (topics.DeleteTopicState(TOPICS[0]), topics.DeleteTopicState(None, ids[TOPICS[0]])):
        yield (
            topics.DeleteTopicsRequest(topics=[state, topics.DeleteTopicState(NOT_THERE)], timeout_ms=1000),
            6,
        )


def questions(ids: Ids, age: float) -> Iterator[Question]:
    """One request of each kind, of a version between its oldest (0.0) and its newest (1.0)."""
    for _, make, first, last in CASES:
        version = round(first + age * (last - first))
        yield make(ids, version), version
