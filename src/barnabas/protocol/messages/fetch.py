"""Fetch: record batches for consumers and followers, by name up to version 12 and by topic id after."""

from __future__ import annotations

from barnabas.protocol.schema import (
    Message,
    Records,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    record_batches,
    string,
    structure,
    uuid,
)


class ReplicaState(Struct):
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", tag=0, ignorable=True)
    high_watermark: int = int64("18+", tag=1, default=0x7FFFFFFFFFFFFFFF, ignorable=True)


class FetchTopic(Struct):
    topic: str = string("4-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    topic: str = string("7-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[int] = array(int32, "7+")


class FetchRequest(Message, api_key=1, versions="4-18", flexible="12+"):
    """Requests records of partitions, within a fetch session (KIP-227)."""

    cluster_id: str | None = string("12+", nullable="12+", tag=0, default=None, ignorable=True)
    replica_id: int = int32("4-14", default=-1)
    replica_state: ReplicaState = structure(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = int8(ignorable=True)
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)


class EpochEndOffset(Struct):
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class SnapshotId(Struct):
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    producer_id: int = int64()
    first_offset: int = int64()


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = structure(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch = structure(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId = structure(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, nullable="4+", ignorable=True
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: Records | None = record_batches(nullable="4+")


class FetchableTopicResponse(Struct):
    topic: str = string("4-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = int32("16+")
    host: str = string("16+")
    port: int = int32("16+")
    rack: str | None = string("16+", nullable="16+", default=None)


class FetchResponse(Message, api_key=1, versions="4-18", flexible="12+"):
    """Records by partition; within a session, partitions without changes are omitted."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)
