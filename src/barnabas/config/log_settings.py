"""The broker's settings of its logs: where they are, how they are kept, the defaults of topic settings."""

from __future__ import annotations

from barnabas.config.checks import AtLeast, OneOf
from barnabas.config.setting import MAX_LONG, Kind, Mode, Setting
from barnabas.config.topic_settings import TOPIC_SETTINGS, TOPIC_SYNONYMS

# -- The broker's settings of replication. One node reads few of them; a cluster reads all -------------

# Kafka loads any class that is named. Here the names of Kafka's own two stand for what they do.
LEADER_ONLY = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

REPLICATION_SETTINGS: tuple[Setting, ...] = (
    Setting("auto.leader.rebalance.enable", Kind.BOOLEAN, "true",
            "Give leadership back to preferred replicas from time to time."),
    Setting("leader.imbalance.check.interval.seconds", Kind.LONG, "300",
            "How often leadership is balanced.", AtLeast(1)),
    Setting("controlled.shutdown.enable", Kind.BOOLEAN, "true",
            "Hand over leadership before a broker stops."),
    Setting("num.replica.fetchers", Kind.INT, "1",
            "Connections over which a follower fetches from each leader.",
            AtLeast(1), mode=Mode.CLUSTER_WIDE),
    Setting("replica.fetch.backoff.ms", Kind.INT, "1000",
            "How long a follower waits after a failed fetch.", AtLeast(0)),
    Setting("replica.fetch.max.bytes", Kind.INT, "1048576",
            "What a follower asks for per partition and fetch.", AtLeast(0)),
    Setting("replica.fetch.min.bytes", Kind.INT, "1",
            "A leader answers a follower once it has this much."),
    Setting("replica.fetch.response.max.bytes", Kind.INT, "10485760",
            "What a follower asks for per fetch.", AtLeast(0)),
    Setting("replica.fetch.wait.max.ms", Kind.INT, "500",
            "How long a follower lets a leader wait for new records."),
    Setting("replica.high.watermark.checkpoint.interval.ms", Kind.LONG, "5000",
            "How often the high watermarks are written down."),
    # Of Kafka before 0.9. By itself it drops followers whenever a burst comes; two reviews in a row are no burst.
    Setting("replica.lag.max.messages", Kind.LONG, "-1",
            "A follower that lacks more records than this in two consecutive reviews leaves the in-sync replicas; "
            "-1 is no limit.", AtLeast(-1)),
    Setting("replica.lag.time.max.ms", Kind.LONG, "30000",
            "A follower that has not caught up for this long leaves the in-sync replicas."),
    Setting("replica.selector.class", Kind.STRING, None,
            "How a consumer's replica is chosen: unset for the leader, "
            "org.apache.kafka.common.replica.RackAwareReplicaSelector for the nearest in sync.",
            OneOf(RACK_AWARE, LEADER_ONLY, "")),
    Setting("replica.socket.receive.buffer.bytes", Kind.INT, "65536",
            "SO_RCVBUF of a follower's connection."),
    Setting("replica.socket.timeout.ms", Kind.INT, "30000",
            "How long a follower waits for an answer; at least replica.fetch.wait.max.ms."),
    Setting("barnabas.reassignment.throttled.rate", Kind.LONG, str(MAX_LONG),
            "Bytes per second that a broker copies for replicas that a reassignment adds, automatic or not; they need "
            "not be listed.", AtLeast(1), mode=Mode.CLUSTER_WIDE),
    Setting("barnabas.balance.auto", Kind.BOOLEAN, "false",
            "Whether the controller spreads replicas and leaders by itself when brokers have come."),
    Setting("barnabas.balance.quiet.ms", Kind.LONG, "300000",
            "How long no broker may have come or gone before replicas are spread.", AtLeast(0)),
    Setting("barnabas.balance.partitions.at.once", Kind.INT, "10",
            "Partitions that the controller lets move at the same time by itself.", AtLeast(1)),
    Setting("barnabas.replica.replace.after.ms", Kind.LONG, "-1",
            "After how long a broker that is gone loses its replicas to others; -1 is never. Not while more than a "
            "third of the brokers is away, and undone as far as it is under way when the broker returns.", AtLeast(-1)),
    Setting("leader.replication.throttled.rate", Kind.LONG, str(MAX_LONG),
            "Bytes per second that a leader sends to throttled replicas.", AtLeast(0), mode=Mode.CLUSTER_WIDE,
            internal=True),
    Setting("follower.replication.throttled.rate", Kind.LONG, str(MAX_LONG),
            "Bytes per second that a follower fetches for throttled replicas.", AtLeast(0),
            mode=Mode.CLUSTER_WIDE, internal=True),
    Setting("replica.alter.log.dirs.io.max.bytes.per.second", Kind.LONG, str(MAX_LONG),
            "Bytes per second that are copied for replicas that move to another log dir.", AtLeast(0),
            mode=Mode.CLUSTER_WIDE, internal=True),
)  # fmt: skip


_FOREVER = str(MAX_LONG)

_OWN_LOG_SETTINGS: tuple[Setting, ...] = (
    Setting("log.dirs", Kind.LIST, None, "The data folders, separated by commas; log.dir when unset."),
    # Kafka's /tmp/kafka-logs is gone after a reboot.
    Setting("log.dir", Kind.LIST, "./barnabas-data", "The data folder, when log.dirs is not set."),
    Setting("cordoned.log.dirs", Kind.LIST, "",
            "Data folders that get no new partitions as long as there is another one.", mode=Mode.PER_BROKER),
    Setting("num.recovery.threads.per.data.dir", Kind.INT, "2",
            "Workers per data folder that check logs after an unclean stop.", AtLeast(1),
            mode=Mode.CLUSTER_WIDE),
    Setting("log.retention.check.interval.ms", Kind.LONG, "300000",
            "How often logs are looked through for segments to delete.", AtLeast(1)),
    Setting("log.flush.scheduler.interval.ms", Kind.LONG, _FOREVER,
            "How often to look for data to sync; also the fallback of log.flush.interval.ms."),
    Setting("log.flush.offset.checkpoint.interval.ms", Kind.INT, "60000",
            "How often the recovery points are written down.", AtLeast(0)),
    Setting("log.flush.start.offset.checkpoint.interval.ms", Kind.INT, "60000",
            "How often the log start offsets are written down.", AtLeast(0)),
    Setting("log.retention.ms", Kind.LONG, None,
            "Default of the topic setting retention.ms; log.retention.minutes when unset.",
            mode=Mode.CLUSTER_WIDE),
    Setting("log.retention.minutes", Kind.INT, None,
            "As log.retention.ms, in minutes; log.retention.hours when unset."),
    Setting("log.retention.hours", Kind.INT, "168", "As log.retention.ms, in hours."),
    Setting("log.roll.ms", Kind.LONG, None,
            "Default of the topic setting segment.ms; log.roll.hours when unset.", mode=Mode.CLUSTER_WIDE),
    Setting("log.roll.hours", Kind.INT, "168", "As log.roll.ms, in hours.", AtLeast(1)),
    Setting("log.roll.jitter.ms", Kind.LONG, None,
            "Default of the topic setting segment.jitter.ms; log.roll.jitter.hours when unset.",
            mode=Mode.CLUSTER_WIDE),
    Setting("log.roll.jitter.hours", Kind.INT, "0", "As log.roll.jitter.ms, in hours.", AtLeast(0)),
    Setting("log.flush.interval.ms", Kind.LONG, None,
            "Default of the topic setting flush.ms; log.flush.scheduler.interval.ms when unset.",
            mode=Mode.CLUSTER_WIDE),
    Setting("log.cleaner.enable", Kind.BOOLEAN, "true", "Compact the topics that ask for it."),
    Setting("log.cleaner.threads", Kind.INT, "1", "Worker processes that compact.", AtLeast(0),
            mode=Mode.CLUSTER_WIDE),
    Setting("log.cleaner.backoff.ms", Kind.LONG, "15000",
            "How long to wait when there is nothing to compact.", AtLeast(0), mode=Mode.CLUSTER_WIDE),
    Setting("log.cleaner.dedupe.buffer.size", Kind.LONG, "134217728",
            "Memory for the keys of one compaction.", mode=Mode.CLUSTER_WIDE),
    Setting("log.cleaner.io.max.bytes.per.second", Kind.DOUBLE, "1.7976931348623157E308",
            "Compaction reads and writes at most this much in a second.", mode=Mode.CLUSTER_WIDE),
    Setting("producer.id.expiration.ms", Kind.INT, "86400000",
            "The sequence numbers of a producer that has been silent for this long are forgotten.",
            AtLeast(1),
            mode=Mode.CLUSTER_WIDE),
    Setting("producer.id.expiration.check.interval.ms", Kind.INT, "600000",
            "How often to look for producers to forget.", AtLeast(1), internal=True),
    Setting("log.initial.task.delay.ms", Kind.LONG, "30000",
            "How long after the start the first round of housekeeping is due.", AtLeast(0), internal=True),
    # NTP steps by less; what is further off is a mistake, or the correction of one.
    Setting("barnabas.clock.jump.ms", Kind.LONG, "300000",
            "A wall clock that jumps ahead by more than this, measured against the time since boot, expires nothing at "
            "once: records, offsets, producers, transactions and transactional ids are kept as long as before. Only "
            "where the system tells the time since boot with suspensions (Linux).", AtLeast(1000),
            mode=Mode.CLUSTER_WIDE),
    Setting("barnabas.clock.jump.pause.ms", Kind.LONG, "3600000",
            "How long after such a jump the old time counts for what expires, unless the clock is set back before. 0 "
            "confirms the new time at once: set it for a moment, then remove it again.", AtLeast(0),
            mode=Mode.CLUSTER_WIDE),
    Setting("barnabas.acks.all.fsync", Kind.STRING, "auto",
            "Whether acks=all waits until the disk has the record: 'always', 'never' (as Kafka), or 'auto': "
            "when no other machine holds it.", OneOf("auto", "always", "never"), mode=Mode.CLUSTER_WIDE),
    # Small enough to go unnoticed, large enough to write checkpoints and snapshots when it is reached.
    Setting("barnabas.disk.reserve.bytes", Kind.LONG, "134217728",
            "Appends are refused while a data folder's disk has less free space than this, so that there is "
            "room to stop and to clean up in order. 0 turns it off.", AtLeast(0)),
    # A write into the page cache takes microseconds. Ten times what a loop is allowed to be held up.
    Setting("barnabas.log.dir.slow.write.ms", Kind.INT, "100",
            "A data folder is slow when several writes to it took longer than this. A thread writes to it then, until "
            "it is fast again, so that the other folders and all connections are served meanwhile. 0 turns it off.",
            AtLeast(0)),
)  # fmt: skip


def _topic_defaults() -> tuple[Setting, ...]:
    """The broker settings whose only meaning is to be the default of a topic setting."""
    own = {setting.name for setting in _OWN_LOG_SETTINGS}
    return tuple(
        setting._replace(
            name=synonyms[0].name,
            documentation=f"Default of the topic setting {setting.name}: {setting.documentation}",
            mode=Mode.CLUSTER_WIDE,
        )
        for setting in TOPIC_SETTINGS
        if (synonyms := TOPIC_SYNONYMS.get(setting.name)) and synonyms[0].name not in own
    )


LOG_SETTINGS: tuple[Setting, ...] = _OWN_LOG_SETTINGS + _topic_defaults()
