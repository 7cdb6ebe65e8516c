"""Mirroring with identical offsets: appending batches of another cluster, and administration of mirror topics.

These APIs are specific to Barnabas: their keys start at `OWN_API`, and clients ignore unknown keys in ApiVersions.

    AppendMirrored    to the leader of a partition      Alter on the cluster, Write on the topic
    AlterMirrors      to any broker (forwarded)         Alter on the cluster, Write on the topic
    DescribeMirrors   to any broker                     Describe on the topic
    SettleMirrors     leaders to the controller         brokers only
"""

from __future__ import annotations

from enum import IntEnum

from barnabas.protocol.schema import (
    Message,
    Records,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    record_batches,
    string,
    uuid,
)


class MirrorState(IntEnum):
    """State of a mirror topic. ACTIVE and SOURCE_UNAVAILABLE accept mirrored batches only, STOPPED ordinary ones."""

    NONE = 0
    """In a request: unchanged."""
    ACTIVE = 1
    PAUSED = 2
    SOURCE_UNAVAILABLE = 3
    """Reported by the mirror; the next mirrored batch is still accepted."""
    FAILED = 4
    """Of a partition, or of the topic if the source deleted or recreated it; `reason` explains it."""
    PROMOTING = 5
    """The leaders abort open transactions and report their log end offsets to the controller."""
    STOPPED = 6
    """Promoted to an ordinary topic; its source is kept for REVERSE."""
    REVERSING = 7
    """The leaders of the old primary truncate their logs to the offsets of the promotion; then ACTIVE."""


class MirrorAction(IntEnum):
    """Action of AlterMirrors on a topic. All actions are idempotent."""

    NONE = 0
    """Only the changes in `partitions`."""
    CREATE = 1
    """Create the topic as a mirror, ACTIVE; for an existing mirror, add missing partitions."""
    ACTIVATE = 2
    """From PAUSED, SOURCE_UNAVAILABLE or FAILED; failed partitions too."""
    PAUSE = 3
    SOURCE_UNAVAILABLE = 4
    FAIL = 5
    """Set the topic to FAILED, with `reason`."""
    PROMOTE = 6
    """Refused while a partition is FAILED or the source unavailable. The caller waits for lag 0 first."""
    FAILOVER = 7
    """PROMOTE regardless of the state."""
    REVERSE = 8
    """Turn an ordinary topic of the old primary into a mirror of the new one. `partitions` has the offset and epoch at
    which each was promoted on the new primary (`promoted_at`, `promoted_epoch`)."""


# -- AppendMirrored -------------------------------------------------------------------------------------------------


class MirroredPartition(Struct):
    index: int = int32()
    leader_epoch: int = int32(default=-1)
    """Leader epoch of the target, from Metadata. A mismatch is FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH."""
    source_high_watermark: int = int64(default=-1)
    source_log_start_offset: int = int64(default=-1)
    """Log start offset of the source, which the target adopts. -1 (`--keep-deleted`): it does not, and an empty target
    starts with the first batch."""
    truncate_to: int = int64(default=-1)
    """Truncate the log to this offset first (`--on-truncation=follow`); -1: no truncation. Beyond the log end: the log
    is emptied and starts there. Raise the leader epoch before (min_leader_epoch), so that consumers validate their
    positions."""
    truncate_epoch: int = int32(default=-1)
    """With `truncate_to`: the epoch that ends there at the source (`diverging_epoch` of its response). If it ends
    earlier in this log, the log is truncated there: later records have an epoch that the source does not have."""
    expected_log_end: int = int64(default=-1)
    """With `truncate_to`: expected log end offset, else INVALID_REQUEST, so that a stale mirror truncates nothing."""
    records: Records | None = record_batches(nullable="0+")
    """Complete batches in order, unchanged from the source. None or empty: only return the log end offset."""


class MirroredTopic(Struct):
    topic_id: bytes = uuid()
    """Of the target."""
    source_topic_id: bytes = uuid()
    """INCONSISTENT_TOPIC_ID if it differs from that of the mirror's creation. Zeros: the source has no topic ids."""
    partitions: list[MirroredPartition] = array(MirroredPartition)


class AppendMirroredRequest(Message, api_key=10_000, versions="0", flexible="0+"):
    """Append batches of another cluster with their offsets and leader epochs (compare-and-append).

    A batch below the log end with the epoch that the log has there is acknowledged but not written again. So the log
    end offset of the target is the position of the mirror, and concurrent mirrors are harmless. Errors of a partition,
    in addition to those of Produce:

        FENCED_LEADER_EPOCH     leader_epoch is older than the leader's (a promotion raises it): refresh metadata
        UNKNOWN_LEADER_EPOCH    leader_epoch is newer than the leader's: retry
        NEW_LEADER_ELECTED      a batch has a later epoch than the target's leader: raise that with AlterMirrors
                                (min_leader_epoch), then retry
        OFFSET_OUT_OF_RANGE     a gap, and the topic is not compacted: set the partition to FAILED
        FENCED_STATE_EPOCH      the log has another epoch at the offset of a batch, or its last batch has a later epoch:
                                source and target have diverged; set the partition to FAILED
        INCONSISTENT_TOPIC_ID   the source topic was recreated: set the topic to FAILED
        CORRUPT_MESSAGE         a batch has an invalid CRC or length; it and later batches were not written
        POLICY_VIOLATION        the topic is not a mirror, or its state does not accept batches; see the message

    Batches before a refused one are written.
    """

    timeout_ms: int = int32(default=30_000)
    """Maximum time to wait for the ISR."""
    topics: list[MirroredTopic] = array(MirroredTopic)


class AppendedPartition(Struct):
    """Offsets of the target, returned with most errors, too; -1 if unknown to this broker."""

    index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    log_start_offset: int = int64(default=-1)
    log_end_offset: int = int64(default=-1)
    """Offset of the next batch to send. Without an error all records below are replicated to the ISR."""
    last_epoch: int = int32(default=-1)
    """Leader epoch of the last batch, for `last_fetched_epoch` of the next fetch from the source. -1: no batch."""
    leader_epoch: int = int32(default=-1)


class AppendedTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[AppendedPartition] = array(AppendedPartition)


class AppendMirroredResponse(Message, api_key=10_000, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    topics: list[AppendedTopic] = array(AppendedTopic)


# -- AlterMirrors ---------------------------------------------------------------------------------------------------


class MirrorConfig(Struct):
    name: str = string()
    value: str | None = string(nullable="0+", default=None)


class AlteredMirrorPartition(Struct):
    index: int = int32()
    min_leader_epoch: int = int32(default=-1)
    """Raise the target's leader epoch to at least this one, that of the source."""
    state: int = int8()
    """MirrorState FAILED (with `reason`) or ACTIVE; NONE leaves it unchanged."""
    reason: str = string()
    promoted_at: int = int64(default=-1)
    """With REVERSE: offset at which the new primary was promoted, from its DescribeMirrors."""
    promoted_epoch: int = int32(default=-1)


class AlteredMirrorTopic(Struct):
    name: str = string()
    """Of the target."""
    action: int = int8()
    """A MirrorAction."""
    source_name: str = string()
    source_topic_id: bytes = uuid()
    num_partitions: int = int32(default=-1)
    """With CREATE."""
    replication_factor: int = int16(default=-1)
    """With CREATE; -1: default.replication.factor of the target."""
    configs: list[MirrorConfig] = array(MirrorConfig)
    """With CREATE. Later changes use IncrementalAlterConfigs, as for every topic."""
    reason: str = string()
    partitions: list[AlteredMirrorPartition] = array(AlteredMirrorPartition)


class AlterMirrorsRequest(Message, api_key=10_001, versions="0", flexible="0+"):
    """Creates mirror topics and changes their state.

    PROMOTE, FAILOVER and REVERSE return when they have started; poll DescribeMirrors until the topic is STOPPED (or
    ACTIVE). Errors of a topic, in addition to those of CreateTopics:

        TOPIC_ALREADY_EXISTS    CREATE of a topic that is not a mirror, or one of another link or source
        INCONSISTENT_TOPIC_ID   the source topic was recreated
        INCONSISTENT_CLUSTER_ID the source is this cluster, or this cluster is on the path to it (a loop)
        INVALID_REQUEST         the action is not allowed in the topic's state; see the message
        UNSUPPORTED_VERSION     barnabas.metadata.version is too low: `kafka-features upgrade`
    """

    timeout_ms: int = int32(default=30_000)
    link: str = string()
    """Name of the link; a topic belongs to one link."""
    source_cluster_id: str = string()
    validate_only: bool = boolean()
    topics: list[AlteredMirrorTopic] = array(AlteredMirrorTopic)
    path: list[str] = array(string)
    """Upstream clusters of the source, nearest first, excluding the source; this cluster must not be among them."""


class AlteredMirrorResult(Struct):
    name: str = string()
    topic_id: bytes = uuid()
    state: int = int8()
    """Current MirrorState."""
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class AlterMirrorsResponse(Message, api_key=10_001, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    topics: list[AlteredMirrorResult] = array(AlteredMirrorResult)


# -- DescribeMirrors ------------------------------------------------------------------------------------------------


class DescribeMirrorsRequest(Message, api_key=10_002, versions="0", flexible="0+"):
    """Describes mirror topics, their sources and progress. Each broker returns the fields known to leaders (see
    DescribedMirrorPartition) only for partitions that it leads: query all brokers for them."""

    topics: list[str] | None = array(string, nullable="0+", default=None)
    """None: all mirror topics. RESOURCE_NOT_FOUND for a topic that is not a mirror."""
    include_partitions: bool = boolean(default=True)


class AbortedTransaction(Struct):
    """Transaction that was open at the promotion and aborted by it."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    first_offset: int = int64()


class DescribedMirrorPartition(Struct):
    index: int = int32()
    state: int = int8()
    """The MirrorState of the topic, or FAILED."""
    reason: str = string()
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    log_start_offset: int = int64(default=-1)
    """This and the next four fields are set only for partitions that the broker leads."""
    log_end_offset: int = int64(default=-1)
    high_watermark: int = int64(default=-1)
    last_epoch: int = int32(default=-1)
    source_high_watermark: int = int64(default=-1)
    """As last reported by the mirror to this leader: lag = this - log_end_offset."""
    promoted_at: int = int64(default=-1)
    """Once STOPPED: end offset of the mirrored records, before the ABORT markers of the promotion."""
    promoted_epoch: int = int32(default=-1)
    """The source's leader epoch of the last mirrored batch; -1 if there was none."""
    aborted_transactions: list[AbortedTransaction] = array(AbortedTransaction)


class DescribedMirrorTopic(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    name: str = string()
    topic_id: bytes = uuid()
    link: str = string()
    source_cluster_id: str = string()
    path: list[str] = array(string)
    source_name: str = string()
    source_topic_id: bytes = uuid()
    state: int = int8()
    reason: str = string()
    partitions: list[DescribedMirrorPartition] = array(DescribedMirrorPartition)


class DescribeMirrorsResponse(Message, api_key=10_002, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    cluster_id: str = string()
    topics: list[DescribedMirrorTopic] = array(DescribedMirrorTopic)


# -- SettleMirrors --------------------------------------------------------------------------------------------------


class SettledPartition(Struct):
    index: int = int32()
    leader_epoch: int = int32()
    """Epoch of the leader; refused if older than the controller's."""
    promoted_at: int = int64()
    """End offset of the mirrored records (PROMOTING), or offset of the truncation (REVERSING)."""
    promoted_epoch: int = int32(default=-1)
    """Leader epoch of the last batch below it."""
    end_offset: int = int64()
    """Log end offset after the markers; all records below are replicated to the ISR."""
    aborted_transactions: list[AbortedTransaction] = array(AbortedTransaction)


class SettledTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[SettledPartition] = array(SettledPartition)


class SettleMirrorsRequest(Message, api_key=10_003, versions="0", flexible="0+"):
    """A leader has completed PROMOTING or REVERSING; when all have, the controller sets STOPPED or ACTIVE."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[SettledTopic] = array(SettledTopic)


class SettledResult(Struct):
    topic_id: bytes = uuid()
    error_code: int = int16()


class SettleMirrorsResponse(Message, api_key=10_003, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[SettledResult] = array(SettledResult)
