"""The offset-true mirror: batches of another cluster, appended where they were there, and topics that are mirrors.

Kafka has no such APIs: the keys are our own (`OWN_API`), and clients that do not know them pass over them in
ApiVersions.

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
    """Of a mirror topic. Only ACTIVE and SOURCE_UNAVAILABLE take mirrored batches; only STOPPED takes others."""

    NONE = 0
    """In a request: leave it as it is."""
    ACTIVE = 1
    PAUSED = 2
    SOURCE_UNAVAILABLE = 3
    """What the mirror says that it sees; the next mirrored batch is taken all the same."""
    FAILED = 4
    """Of one partition, or of the topic (deleted or created again at the source): `reason` says why."""
    PROMOTING = 5
    """The leaders end open transactions and tell the controller where their logs end."""
    STOPPED = 6
    """Promoted: an ordinary topic, which remembers where it came from."""
    REVERSING = 7
    """The leaders of an old primary cut their logs to where the new one was promoted; ACTIVE follows."""


class MirrorAction(IntEnum):
    """What AlterMirrors does to a topic. Each may be repeated: what is done already is no error."""

    NONE = 0
    """Only what `partitions` says."""
    CREATE = 1
    """Create the topic as a mirror, ACTIVE. With more partitions than it has: add them."""
    ACTIVATE = 2
    """From PAUSED, SOURCE_UNAVAILABLE or FAILED; failed partitions too."""
    PAUSE = 3
    SOURCE_UNAVAILABLE = 4
    FAIL = 5
    """The whole topic, for `reason`."""
    PROMOTE = 6
    """Refused while a partition is FAILED or the source unavailable. The caller has waited until the lag was 0."""
    FAILOVER = 7
    """As PROMOTE, whatever the state."""
    REVERSE = 8
    """Of an ordinary topic of the old primary: make it a mirror of the new one. `partitions` say for each where the new
    primary was promoted (`promoted_at`, `promoted_epoch`)."""


# -- AppendMirrored -------------------------------------------------------------------------------------------------


class MirroredPartition(Struct):
    index: int = int32()
    leader_epoch: int = int32(default=-1)
    """Of the target's leader, as Metadata told it. Another one is FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH."""
    source_high_watermark: int = int64(default=-1)
    source_log_start_offset: int = int64(default=-1)
    """An empty target starts here; the log start of the target follows it. -1 (`--keep-deleted`): it does not, and an
    empty target starts with the first batch."""
    truncate_to: int = int64(default=-1)
    """Cut the log to this offset first (`--on-truncation=follow`); -1 cuts nothing. Beyond the log end: the log is
    emptied and starts there. Raise the leader epoch first (min_leader_epoch), so that consumers look where they are."""
    truncate_epoch: int = int32(default=-1)
    """With `truncate_to`: the epoch that ended there at the source (`diverging_epoch` of its answer). Where it ended
    earlier in this log, the log is cut there: what comes after it is of an epoch that the source does not have."""
    expected_log_end: int = int64(default=-1)
    """With `truncate_to`: cut only if the log ends here (else INVALID_REQUEST), so that who slept cuts nothing."""
    records: Records | None = record_batches(nullable="0+")
    """Whole batches in their order, as the source has them. None or empty: say only where the log ends."""


class MirroredTopic(Struct):
    topic_id: bytes = uuid()
    """Of the target."""
    source_topic_id: bytes = uuid()
    """Another one than the mirror topic was created with is INCONSISTENT_TOPIC_ID. Zeros: the source has none."""
    partitions: list[MirroredPartition] = array(MirroredPartition)


class AppendMirroredRequest(Message, api_key=10_000, versions="0", flexible="0+"):
    """Append batches of another cluster with their offsets and leader epochs (compare-and-append).

    A batch below the log end, of the epoch that the log has there, is acknowledged and not written. So the log end of
    the target is the position, and two mirrors at once do no harm. Errors of a partition, beside Produce's:

        FENCED_LEADER_EPOCH     leader_epoch is not the leader's any more (a promotion raises it): ask Metadata
        UNKNOWN_LEADER_EPOCH    the leader has not heard of it yet: repeat
        NEW_LEADER_ELECTED      a batch is of a later epoch than the target's leader: raise that by AlterMirrors
                                (min_leader_epoch), then repeat
        OFFSET_OUT_OF_RANGE     a gap, and the topic is not compacted: the partition is to be FAILED
        FENCED_STATE_EPOCH      the log has another epoch at the offset of a batch, or its last batch is of a later one:
                                source and target have diverged; the partition is to be FAILED
        INCONSISTENT_TOPIC_ID   the source topic was created again: the topic is to be FAILED
        CORRUPT_MESSAGE         a batch whose CRC or lengths are wrong; nothing from it on was written
        POLICY_VIOLATION        the topic is no mirror, or not in a state that takes batches; the text says which

    Batches before the one that is refused are written.
    """

    timeout_ms: int = int32(default=30_000)
    """How long to wait for the ISR."""
    topics: list[MirroredTopic] = array(MirroredTopic)


class AppendedPartition(Struct):
    """Where the target stands, also with most errors; -1: this broker does not know."""

    index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    log_start_offset: int = int64(default=-1)
    log_end_offset: int = int64(default=-1)
    """Without an error every replica in sync has what is below: the next batch to send begins here."""
    last_epoch: int = int32(default=-1)
    """Of the last batch: the `last_fetched_epoch` of the next fetch from the source. -1: there is no batch."""
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
    """Raise the target's leader epoch to this one if it is lower: to that of the source."""
    state: int = int8()
    """MirrorState FAILED (for `reason`) or ACTIVE; NONE leaves it as it is."""
    reason: str = string()
    promoted_at: int = int64(default=-1)
    """With REVERSE: where the new primary was promoted, from its DescribeMirrors."""
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
    """With CREATE. Later on they are changed as those of every topic (IncrementalAlterConfigs)."""
    reason: str = string()
    partitions: list[AlteredMirrorPartition] = array(AlteredMirrorPartition)


class AlterMirrorsRequest(Message, api_key=10_001, versions="0", flexible="0+"):
    """Create mirror topics and take them from one state to another.

    PROMOTE, FAILOVER and REVERSE are answered when they have begun: DescribeMirrors says when the topic is STOPPED (or
    ACTIVE). Errors of a topic, beside CreateTopics':

        TOPIC_ALREADY_EXISTS    CREATE of a topic that is no mirror, or one of another link or source
        INCONSISTENT_TOPIC_ID   the source topic was created again
        INCONSISTENT_CLUSTER_ID the source is this cluster, or this cluster is on the path to it (a loop)
        INVALID_REQUEST         the topic is in a state from which the action cannot be taken; the text says which
        UNSUPPORTED_VERSION     barnabas.metadata.version is too low: `kafka-features upgrade`
    """

    timeout_ms: int = int32(default=30_000)
    link: str = string()
    """The name of the link; a topic belongs to one."""
    source_cluster_id: str = string()
    validate_only: bool = boolean()
    topics: list[AlteredMirrorTopic] = array(AlteredMirrorTopic)
    path: list[str] = array(string)
    """Clusters that what the source has comes from, nearest first, without the source: none of them may be this one."""


class AlteredMirrorResult(Struct):
    name: str = string()
    topic_id: bytes = uuid()
    state: int = int8()
    """The MirrorState now."""
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class AlterMirrorsResponse(Message, api_key=10_001, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    topics: list[AlteredMirrorResult] = array(AlteredMirrorResult)


# -- DescribeMirrors ------------------------------------------------------------------------------------------------


class DescribeMirrorsRequest(Message, api_key=10_002, versions="0", flexible="0+"):
    """What is mirrored, from where, and how far. What only leaders know (see DescribedMirrorPartition) each broker says
    of the partitions that it leads: ask every broker for it."""

    topics: list[str] | None = array(string, nullable="0+", default=None)
    """None: all mirror topics. A topic that is named and no mirror is RESOURCE_NOT_FOUND."""
    include_partitions: bool = boolean(default=True)


class AbortedTransaction(Struct):
    """Open when its partition was promoted, and ended by an ABORT marker."""

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
    """This and the next four: only of partitions that the broker leads."""
    log_end_offset: int = int64(default=-1)
    high_watermark: int = int64(default=-1)
    last_epoch: int = int32(default=-1)
    source_high_watermark: int = int64(default=-1)
    """As the mirror last told it to this leader: lag = this - log_end_offset."""
    promoted_at: int = int64(default=-1)
    """Since STOPPED: where the mirrored part ends, ABORT markers of the promotion excluded."""
    promoted_epoch: int = int32(default=-1)
    """The source's epoch of the last mirrored batch; -1 if there was none."""
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
    """In which the leader has settled it; an older one than the controller's is refused."""
    promoted_at: int = int64()
    """Where the mirrored part ends (PROMOTING), or where the log was cut (REVERSING)."""
    promoted_epoch: int = int32(default=-1)
    """Of the last batch below it."""
    end_offset: int = int64()
    """Behind the markers; every replica in sync has all below."""
    aborted_transactions: list[AbortedTransaction] = array(AbortedTransaction)


class SettledTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[SettledPartition] = array(SettledPartition)


class SettleMirrorsRequest(Message, api_key=10_003, versions="0", flexible="0+"):
    """A leader has done its part of PROMOTING or REVERSING; when all have, the controller stores STOPPED or ACTIVE."""

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
