"""Topic settings, and the broker settings that provide their defaults.

Names, types and defaults are those of Apache Kafka 4.3, except for the last block.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.config.checks import AtLeast, Between, BetweenOr, ListCheck, OneOf, ReplicaList
from barnabas.config.remote_origin import REMOTE_ORIGIN, OriginText
from barnabas.config.setting import MAX_LONG, Setting, SettingKind

COMPRESSION_TYPES = OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP_POLICIES = ListCheck("compact", "delete")
TIMESTAMP_TYPES = OneOf("CreateTime", "LogAppendTime")
GZIP_LEVELS = BetweenOr(1, 9, -1)
LZ4_LEVELS = Between(1, 17)
ZSTD_LEVELS = Between(-131072, 22)
RECORD_VALIDATION = OneOf("batch", "all")
COMPACTED_COPIES = OneOf("refuse", "copy")
VISIBILITY = OneOf("committed", "flushed")

_FOREVER = str(MAX_LONG)
_WEEK = str(7 * 24 * 3600 * 1000)

TOPIC_SETTINGS: tuple[Setting, ...] = (
    Setting("cleanup.policy", SettingKind.LIST, "delete",
            "The cleanup of old records: 'delete' deletes segments by age and size, 'compact' keeps the latest record "
            "of each key. Both may be set; if empty, everything is kept.", CLEANUP_POLICIES),
    Setting("compression.gzip.level", SettingKind.INT, "-1",
            "The level if compression.type is gzip; -1 is the library's default.", GZIP_LEVELS),
    Setting("compression.lz4.level", SettingKind.INT, "9",
            "The level if compression.type is lz4.", LZ4_LEVELS),
    Setting("compression.type", SettingKind.STRING, "producer",
            "The compression of stored batches: that of the producer ('producer'), none ('uncompressed'), or a codec. "
            "Any value but 'producer' makes the broker recompress batches.", COMPRESSION_TYPES),
    Setting("compression.zstd.level", SettingKind.INT, "3",
            "The level if compression.type is zstd.", ZSTD_LEVELS),
    Setting("delete.retention.ms", SettingKind.LONG, "86400000",
            "The retention time of tombstones in a compacted topic. A consumer that reads from the beginning within "
            "this time sees all deletions.", AtLeast(0)),
    Setting("file.delete.delay.ms", SettingKind.LONG, "60000",
            "The delay between the removal of a segment and the deletion of its files, for readers that still use "
            "them.", AtLeast(0)),
    Setting("flush.messages", SettingKind.LONG, _FOREVER,
            "The number of records after which the log is flushed to disk. See barnabas.acks.all.fsync for acks=all.",
            AtLeast(1)),
    Setting("flush.ms", SettingKind.LONG, _FOREVER,
            "The maximum time between flushes of the log to disk.", AtLeast(0)),
    Setting("follower.replication.throttled.replicas", SettingKind.LIST, "",
            "The replicas that are throttled on the follower side.", ReplicaList()),
    Setting("index.interval.bytes", SettingKind.INT, "4096",
            "The approximate number of bytes between two entries of the offset index.", AtLeast(0)),
    Setting("internal.segment.bytes", SettingKind.INT, None,
            "Overrides segment.bytes without its lower bound. For tests.", internal=True),
    Setting("leader.replication.throttled.replicas", SettingKind.LIST, "",
            "The replicas that are throttled on the leader side.", ReplicaList()),
    Setting("local.retention.bytes", SettingKind.LONG, "-2",
            "The size of a tiered log beyond which its oldest local segments are deleted; -2: retention.bytes.",
            AtLeast(-2)),
    Setting("local.retention.ms", SettingKind.LONG, "-2",
            "The age at which local segments of a tiered log are deleted; -2: retention.ms.", AtLeast(-2)),
    Setting("max.compaction.lag.ms", SettingKind.LONG, _FOREVER,
            "The maximum time that a record remains ineligible for compaction.", AtLeast(1)),
    Setting("max.message.bytes", SettingKind.INT, "1048588",
            "The maximum size of a record batch, after compression.", AtLeast(0)),
    Setting("message.timestamp.after.max.ms", SettingKind.LONG, "3600000",
            "The maximum time that a record's timestamp may be ahead of the broker's clock (CreateTime only).",
            AtLeast(0)),
    Setting("message.timestamp.before.max.ms", SettingKind.LONG, _FOREVER,
            "The maximum time that a record's timestamp may be behind the broker's clock (CreateTime only).",
            AtLeast(0)),
    Setting("message.timestamp.type", SettingKind.STRING, "CreateTime",
            "Whether record timestamps are set by the producer (CreateTime) or by the broker (LogAppendTime).",
            TIMESTAMP_TYPES),
    Setting("min.cleanable.dirty.ratio", SettingKind.DOUBLE, "0.5",
            "The fraction of a log that must be uncompacted before the log is compacted.", Between(0, 1)),
    Setting("min.compaction.lag.ms", SettingKind.LONG, "0",
            "The minimum age of a record before it may be compacted.", AtLeast(0)),
    Setting("min.insync.replicas", SettingKind.INT, "1",
            "The minimum number of in-sync replicas for writes with acks=all.", AtLeast(1)),
    Setting("preallocate", SettingKind.BOOLEAN, "false",
            "Whether to preallocate the file of a new segment."),
    # KIP-1241, part of Kafka 4.4.
    Setting("remote.copy.lag.bytes", SettingKind.LONG, "-1",
            "A closed segment of a tiered topic is copied once so many newer bytes of the log are local, or once it is "
            "as old as remote.copy.lag.ms. 0: at once. -1: the local retention size.", AtLeast(-1)),
    Setting("remote.copy.lag.ms", SettingKind.LONG, "0",
            "A closed segment of a tiered topic is copied once its latest record is so old, or remote.copy.lag.bytes "
            "are newer. 0: at once. -1: the local retention time.", AtLeast(-1)),
    Setting("remote.log.copy.disable", SettingKind.BOOLEAN, "false",
            "Whether to stop copying segments of a tiered topic to the object store."),
    Setting("remote.log.delete.on.disable", SettingKind.BOOLEAN, "false",
            "Whether to delete remote data when tiering is disabled for the topic."),
    Setting("remote.storage.enable", SettingKind.BOOLEAN, "false",
            "Whether to copy closed segments of this topic to the object store."),
    Setting("retention.bytes", SettingKind.LONG, "-1",
            "The size of a partition beyond which its oldest segments are deleted; -1: no limit."),
    Setting("retention.ms", SettingKind.LONG, _WEEK,
            "The age at which segments are deleted; -1: never.", AtLeast(-1)),
    Setting("segment.bytes", SettingKind.INT, "1073741824",
            "The size at which a segment is rolled.", AtLeast(1024 * 1024)),
    Setting("segment.index.bytes", SettingKind.INT, "10485760",
            "The maximum size of a segment's offset index.", AtLeast(4)),
    Setting("segment.jitter.ms", SettingKind.LONG, "0",
            "The maximum random jitter subtracted from segment.ms, so that logs do not all roll at the same time.",
            AtLeast(0)),
    Setting("segment.ms", SettingKind.LONG, _WEEK,
            "The age at which a segment is rolled, regardless of its size.", AtLeast(1)),
    Setting("unclean.leader.election.enable", SettingKind.BOOLEAN, "false",
            "Whether a replica outside of the ISR may become leader as a last resort, which can lose records."),
    # From KIP-1191, part of Kafka 4.4.
    Setting("errors.deadletterqueue.group.enable", SettingKind.BOOLEAN, "false",
            "Whether share groups may write their dead letters to this topic."),
    # Settings of Barnabas.
    Setting("barnabas.delay.enable", SettingKind.BOOLEAN, "false",
            "Whether records with the header barnabas-deliver-at (epoch milliseconds) or barnabas-delay-ms are "
            "delivered to share groups only at that time."),
    Setting("barnabas.remote.compacted", SettingKind.STRING, "refuse",
            "Whether a compacted topic may set remote.storage.enable: 'refuse' (as Apache Kafka), or 'copy': the "
            "object store has a copy for a restore, and the full log stays on the brokers' disks.",
            COMPACTED_COPIES),
    Setting("barnabas.visible", SettingKind.STRING, "committed",
            "Records visible to consumers and share groups: 'committed', those replicated to the full ISR, or "
            "'flushed', only those that are also flushed to the leader's disk; they are flushed at once. Replicas "
            "fetch all records.", VISIBILITY),
    Setting(REMOTE_ORIGIN, SettingKind.STRING, "",
            "The source of a restored topic, set by `barnabas snapshot restore` and `barnabas cluster restore`. The "
            "leader of an empty log reads the object store before it accepts records.",
            OriginText()),
    Setting("barnabas.remote.unclean.wait", SettingKind.BOOLEAN, "true",
            "Whether the leader of a tiered topic stays offline after an unclean election until it has read the "
            "object store. If false, it accepts records at once, and conflicting remote segments are quarantined."),
    Setting("barnabas.validate.records", SettingKind.STRING, "batch",
            "'batch' validates batches, and single records only where Kafka's rules require it; 'all' validates every "
            "record, as Kafka does: for topics written by untrusted clients.",
            RECORD_VALIDATION),
    Setting("barnabas.validate.max.bytes", SettingKind.INT, "33554432",
            "The maximum decompressed size of a batch whose records are validated, but at least twice "
            "max.message.bytes. It also bounds the number of records that a batch may declare.", AtLeast(1)),
    Setting("barnabas.validate.max.headers", SettingKind.INT, "10000",
            "The maximum number of headers of a record in a batch whose records are validated.", AtLeast(0)),
    # Empty blocks take time without output. 10,000 are 300 MB as snappy-java writes them; consumers accept 100,000.
    Setting("barnabas.validate.max.blocks", SettingKind.INT, "10000",
            "The maximum number of snappy or lz4 blocks in a batch whose records are validated. A gzip member counts "
            "as ten.", Between(1, 100_000)),
)  # fmt: skip


class BrokerSynonym(NamedTuple):
    """Broker setting that provides a default; `factor` converts its unit."""

    name: str
    factor: int = 1


_MINUTE = 60 * 1000
_HOUR = 60 * _MINUTE

TOPIC_SYNONYMS: dict[str, tuple[BrokerSynonym, ...]] = {
    "segment.bytes": (BrokerSynonym("log.segment.bytes"),),
    "segment.ms": (BrokerSynonym("log.roll.ms"), BrokerSynonym("log.roll.hours", _HOUR)),
    "segment.jitter.ms": (BrokerSynonym("log.roll.jitter.ms"), BrokerSynonym("log.roll.jitter.hours", _HOUR)),
    "segment.index.bytes": (BrokerSynonym("log.index.size.max.bytes"),),
    "flush.messages": (BrokerSynonym("log.flush.interval.messages"),),
    "flush.ms": (BrokerSynonym("log.flush.interval.ms"), BrokerSynonym("log.flush.scheduler.interval.ms")),
    "retention.bytes": (BrokerSynonym("log.retention.bytes"),),
    "retention.ms": (
        BrokerSynonym("log.retention.ms"),
        BrokerSynonym("log.retention.minutes", _MINUTE),
        BrokerSynonym("log.retention.hours", _HOUR),
    ),
    "max.message.bytes": (BrokerSynonym("message.max.bytes"),),
    "index.interval.bytes": (BrokerSynonym("log.index.interval.bytes"),),
    "delete.retention.ms": (BrokerSynonym("log.cleaner.delete.retention.ms"),),
    "min.compaction.lag.ms": (BrokerSynonym("log.cleaner.min.compaction.lag.ms"),),
    "max.compaction.lag.ms": (BrokerSynonym("log.cleaner.max.compaction.lag.ms"),),
    "file.delete.delay.ms": (BrokerSynonym("log.segment.delete.delay.ms"),),
    "min.cleanable.dirty.ratio": (BrokerSynonym("log.cleaner.min.cleanable.ratio"),),
    "cleanup.policy": (BrokerSynonym("log.cleanup.policy"),),
    "preallocate": (BrokerSynonym("log.preallocate"),),
    "message.timestamp.type": (BrokerSynonym("log.message.timestamp.type"),),
    "message.timestamp.before.max.ms": (BrokerSynonym("log.message.timestamp.before.max.ms"),),
    "message.timestamp.after.max.ms": (BrokerSynonym("log.message.timestamp.after.max.ms"),),
    "local.retention.ms": (BrokerSynonym("log.local.retention.ms"),),
    "local.retention.bytes": (BrokerSynonym("log.local.retention.bytes"),),
    "remote.copy.lag.ms": (BrokerSynonym("log.remote.copy.lag.ms"),),
    "remote.copy.lag.bytes": (BrokerSynonym("log.remote.copy.lag.bytes"),),
    # Same name for brokers and topics.
    "unclean.leader.election.enable": (BrokerSynonym("unclean.leader.election.enable"),),
    "min.insync.replicas": (BrokerSynonym("min.insync.replicas"),),
    "compression.type": (BrokerSynonym("compression.type"),),
    "compression.gzip.level": (BrokerSynonym("compression.gzip.level"),),
    "compression.lz4.level": (BrokerSynonym("compression.lz4.level"),),
    "compression.zstd.level": (BrokerSynonym("compression.zstd.level"),),
    "barnabas.remote.compacted": (BrokerSynonym("barnabas.remote.compacted"),),
    "barnabas.validate.records": (BrokerSynonym("barnabas.validate.records"),),
    "barnabas.validate.max.bytes": (BrokerSynonym("barnabas.validate.max.bytes"),),
    "barnabas.validate.max.headers": (BrokerSynonym("barnabas.validate.max.headers"),),
    "barnabas.validate.max.blocks": (BrokerSynonym("barnabas.validate.max.blocks"),),
}
