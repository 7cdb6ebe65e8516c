"""The settings of a topic, and the broker settings that each falls back to.

Names, types and defaults are those of Apache Kafka 4.3, except for the last block.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.config.checks import AtLeast, Between, BetweenOr, ListOf, OneOf, ReplicaList
from barnabas.config.remote_origin import REMOTE_ORIGIN, OriginText
from barnabas.config.setting import MAX_LONG, Kind, Setting

COMPRESSION_TYPES = OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP_POLICIES = ListOf("compact", "delete")
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
    Setting("cleanup.policy", Kind.LIST, "delete",
            "What happens to old records: 'delete' drops whole segments by age and size, 'compact' keeps the "
            "latest record of each key. Both may be given; none keeps everything.", CLEANUP_POLICIES),
    Setting("compression.gzip.level", Kind.INT, "-1",
            "Level used when compression.type is gzip; -1 is the library's own default.", GZIP_LEVELS),
    Setting("compression.lz4.level", Kind.INT, "9",
            "Level used when compression.type is lz4.", LZ4_LEVELS),
    Setting("compression.type", Kind.STRING, "producer",
            "How batches are stored: as the producer sent them ('producer'), not compressed, or with one "
            "codec for all. Anything but 'producer' costs the broker a decompression.", COMPRESSION_TYPES),
    Setting("compression.zstd.level", Kind.INT, "3",
            "Level used when compression.type is zstd.", ZSTD_LEVELS),
    Setting("delete.retention.ms", Kind.LONG, "86400000",
            "How long the tombstones of a compacted topic stay, so that a reader from the start sees every "
            "deletion.", AtLeast(0)),
    Setting("file.delete.delay.ms", Kind.LONG, "60000",
            "How long the file of a removed segment is kept for readers that still hold it.", AtLeast(0)),
    Setting("flush.messages", Kind.LONG, _FOREVER,
            "Sync the log to disk after this many records. See barnabas.acks.all.fsync for what "
            "acks=all waits for.", AtLeast(1)),
    Setting("flush.ms", Kind.LONG, _FOREVER,
            "Sync the log to disk at least this often.", AtLeast(0)),
    Setting("follower.replication.throttled.replicas", Kind.LIST, "",
            "Replicas throttled on the follower's side while partitions move.", ReplicaList()),
    Setting("index.interval.bytes", Kind.INT, "4096",
            "An offset index entry is made after about this many bytes of log.", AtLeast(0)),
    Setting("internal.segment.bytes", Kind.INT, None,
            "Overrides segment.bytes without its lower bound. For tests.", internal=True),
    Setting("leader.replication.throttled.replicas", Kind.LIST, "",
            "Replicas throttled on the leader's side while partitions move.", ReplicaList()),
    Setting("local.retention.bytes", Kind.LONG, "-2",
            "Size of the part of a tiered log that stays on local disk; -2 means as retention.bytes.",
            AtLeast(-2)),
    Setting("local.retention.ms", Kind.LONG, "-2",
            "Age up to which a tiered log stays on local disk; -2 means as retention.ms.", AtLeast(-2)),
    Setting("max.compaction.lag.ms", Kind.LONG, _FOREVER,
            "The longest time that a record may wait to be looked at by compaction.", AtLeast(1)),
    Setting("max.message.bytes", Kind.INT, "1048588",
            "The largest record batch that is accepted, after compression.", AtLeast(0)),
    Setting("message.timestamp.after.max.ms", Kind.LONG, "3600000",
            "How far a record's timestamp may be ahead of the broker's clock (CreateTime only).", AtLeast(0)),
    Setting("message.timestamp.before.max.ms", Kind.LONG, _FOREVER,
            "How far a record's timestamp may be behind the broker's clock (CreateTime only).", AtLeast(0)),
    Setting("message.timestamp.type", Kind.STRING, "CreateTime",
            "Whether a record carries the producer's time or the time of its append.", TIMESTAMP_TYPES),
    Setting("min.cleanable.dirty.ratio", Kind.DOUBLE, "0.5",
            "A log is compacted once this part of it has not been compacted yet.", Between(0, 1)),
    Setting("min.compaction.lag.ms", Kind.LONG, "0",
            "A record is not compacted away before it is this old.", AtLeast(0)),
    Setting("min.insync.replicas", Kind.INT, "1",
            "acks=all is refused while fewer replicas than this are in sync.", AtLeast(1)),
    Setting("preallocate", Kind.BOOLEAN, "false",
            "Reserve the disk space of a segment when it is created."),
    Setting("remote.log.copy.disable", Kind.BOOLEAN, "false",
            "Stop copying segments of a tiered topic to the object store."),
    Setting("remote.log.delete.on.disable", Kind.BOOLEAN, "false",
            "Delete the remote part of a topic when its tiering is switched off."),
    Setting("remote.storage.enable", Kind.BOOLEAN, "false",
            "Keep sealed segments of this topic in an object store."),
    Setting("retention.bytes", Kind.LONG, "-1",
            "A partition's size above which its oldest segments are deleted; -1 is no limit."),
    Setting("retention.ms", Kind.LONG, _WEEK,
            "The age at which segments are deleted; -1 keeps them for ever.", AtLeast(-1)),
    Setting("segment.bytes", Kind.INT, "1073741824",
            "The size at which a new segment file is started.", AtLeast(1024 * 1024)),
    Setting("segment.index.bytes", Kind.INT, "10485760",
            "The largest size of a segment's offset index.", AtLeast(4)),
    Setting("segment.jitter.ms", Kind.LONG, "0",
            "At most this much is taken off segment.ms at random, so that not all logs roll at once.",
            AtLeast(0)),
    Setting("segment.ms", Kind.LONG, _WEEK,
            "The age at which a new segment file is started even if the current one is small.", AtLeast(1)),
    Setting("unclean.leader.election.enable", Kind.BOOLEAN, "false",
            "Let a replica that is not in sync become leader when no other is left, at the price of lost "
            "records."),
    # KIP-1191's, which came with Kafka 4.4.
    Setting("errors.deadletterqueue.group.enable", Kind.BOOLEAN, "false",
            "Whether share groups may write their dead letters to this topic."),
    # Barnabas's own.
    Setting("barnabas.delay.enable", Kind.BOOLEAN, "false",
            "Whether records with a header barnabas-deliver-at (epoch milliseconds) or barnabas-delay-ms are "
            "held back from share groups until their time has come."),
    Setting("barnabas.remote.compacted", Kind.STRING, "refuse",
            "Whether a compacted topic may have remote.storage.enable: 'refuse', as Apache Kafka does, or 'copy': the "
            "object store has a copy of it, for a restore, and the whole log stays on the brokers' disks.",
            COMPACTED_COPIES),
    Setting("barnabas.visible", Kind.STRING, "committed",
            "'committed' shows consumers and share groups what all in-sync replicas have; 'flushed' only what is also "
            "synced to the leader's disk, and syncs it at once. Replicas see everything.", VISIBILITY),
    Setting(REMOTE_ORIGIN, Kind.STRING, "",
            "Where the records of a restored topic come from; `barnabas snapshot restore` and `barnabas cluster "
            "restore` write it. The leader of an empty log looks into the object store before it takes records.",
            OriginText()),
    Setting("barnabas.remote.unclean.wait", Kind.BOOLEAN, "true",
            "Whether a leader of a tiered topic that was elected uncleanly stays offline until it has read what is in "
            "the object store. false lets it take records at once: what they contradict there goes into quarantine."),
    Setting("barnabas.validate.records", Kind.STRING, "batch",
            "'batch' checks batches as a whole and looks inside only where Kafka's rules need it; 'all' "
            "checks every record before it is accepted, as Kafka does: for topics that clients you do not trust write.",
            RECORD_VALIDATION),
    Setting("barnabas.validate.max.bytes", Kind.INT, "33554432",
            "The most that a compressed batch may decompress to where the broker looks inside it, but at least "
            "twice max.message.bytes; no batch may claim more records than fit into that.", AtLeast(1)),
    Setting("barnabas.validate.max.headers", Kind.INT, "10000",
            "The most headers of a record where the broker looks inside a batch.", AtLeast(0)),
    # Empty blocks cost time and give no output. 10,000 are 300 MB as snappy-java writes them; readers take 100,000.
    Setting("barnabas.validate.max.blocks", Kind.INT, "10000",
            "The most blocks of snappy or lz4 in a batch where the broker looks inside it. A member of gzip counts as "
            "ten.", Between(1, 100_000)),
)  # fmt: skip


class Synonym(NamedTuple):
    """A broker setting that a setting falls back to; its value times `factor` has the right unit."""

    name: str
    factor: int = 1


_MINUTE = 60 * 1000
_HOUR = 60 * _MINUTE

TOPIC_SYNONYMS: dict[str, tuple[Synonym, ...]] = {
    "segment.bytes": (Synonym("log.segment.bytes"),),
    "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR)),
    "segment.jitter.ms": (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _HOUR)),
    "segment.index.bytes": (Synonym("log.index.size.max.bytes"),),
    "flush.messages": (Synonym("log.flush.interval.messages"),),
    "flush.ms": (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    "retention.bytes": (Synonym("log.retention.bytes"),),
    "retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", _MINUTE),
        Synonym("log.retention.hours", _HOUR),
    ),
    "max.message.bytes": (Synonym("message.max.bytes"),),
    "index.interval.bytes": (Synonym("log.index.interval.bytes"),),
    "delete.retention.ms": (Synonym("log.cleaner.delete.retention.ms"),),
    "min.compaction.lag.ms": (Synonym("log.cleaner.min.compaction.lag.ms"),),
    "max.compaction.lag.ms": (Synonym("log.cleaner.max.compaction.lag.ms"),),
    "file.delete.delay.ms": (Synonym("log.segment.delete.delay.ms"),),
    "min.cleanable.dirty.ratio": (Synonym("log.cleaner.min.cleanable.ratio"),),
    "cleanup.policy": (Synonym("log.cleanup.policy"),),
    "preallocate": (Synonym("log.preallocate"),),
    "message.timestamp.type": (Synonym("log.message.timestamp.type"),),
    "message.timestamp.before.max.ms": (Synonym("log.message.timestamp.before.max.ms"),),
    "message.timestamp.after.max.ms": (Synonym("log.message.timestamp.after.max.ms"),),
    "local.retention.ms": (Synonym("log.local.retention.ms"),),
    "local.retention.bytes": (Synonym("log.local.retention.bytes"),),
    # These have the same name on both levels.
    "unclean.leader.election.enable": (Synonym("unclean.leader.election.enable"),),
    "min.insync.replicas": (Synonym("min.insync.replicas"),),
    "compression.type": (Synonym("compression.type"),),
    "compression.gzip.level": (Synonym("compression.gzip.level"),),
    "compression.lz4.level": (Synonym("compression.lz4.level"),),
    "compression.zstd.level": (Synonym("compression.zstd.level"),),
    "barnabas.remote.compacted": (Synonym("barnabas.remote.compacted"),),
    "barnabas.validate.records": (Synonym("barnabas.validate.records"),),
    "barnabas.validate.max.bytes": (Synonym("barnabas.validate.max.bytes"),),
    "barnabas.validate.max.headers": (Synonym("barnabas.validate.max.headers"),),
    "barnabas.validate.max.blocks": (Synonym("barnabas.validate.max.blocks"),),
}
