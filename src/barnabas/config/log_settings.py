"""Broker settings of logs and replication, and the broker-level defaults of topic settings."""

from __future__ import annotations

from barnabas.config.checks import AtLeast, Matching, OneOf
from barnabas.config.setting import MAX_LONG, Setting, SettingKind, UpdateMode
from barnabas.config.topic_settings import TOPIC_SETTINGS, TOPIC_SYNONYMS

# -- Replication. A single node uses few of these settings ---------------------------------------------

# Kafka loads any class. Here the names of Kafka's two classes select the built-in equivalents.
LEADER_ONLY = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

REPLICATION_SETTINGS: tuple[Setting, ...] = (
    Setting("auto.leader.rebalance.enable", SettingKind.BOOLEAN, "true",
            "Whether to move leadership back to preferred replicas periodically."),
    Setting("leader.imbalance.check.interval.seconds", SettingKind.LONG, "300",
            "The interval of preferred leader elections.", AtLeast(1)),
    Setting("controlled.shutdown.enable", SettingKind.BOOLEAN, "true",
            "Whether a broker transfers its leaderships before it stops."),
    Setting("num.replica.fetchers", SettingKind.INT, "1",
            "The number of connections over which a follower fetches from each leader.",
            AtLeast(1), mode=UpdateMode.CLUSTER_WIDE),
    Setting("replica.fetch.backoff.ms", SettingKind.INT, "1000",
            "The time that a follower waits after a failed fetch.", AtLeast(0)),
    Setting("replica.fetch.max.bytes", SettingKind.INT, "1048576",
            "The maximum number of bytes per partition that a follower requests in a fetch.", AtLeast(0)),
    Setting("replica.fetch.min.bytes", SettingKind.INT, "1",
            "The minimum number of bytes for which a leader responds to a follower at once."),
    Setting("replica.fetch.response.max.bytes", SettingKind.INT, "10485760",
            "The maximum number of bytes that a follower requests in a fetch.", AtLeast(0)),
    Setting("replica.fetch.wait.max.ms", SettingKind.INT, "500",
            "The maximum time that a leader may wait for new records before it responds to a follower."),
    Setting("replica.high.watermark.checkpoint.interval.ms", SettingKind.LONG, "5000",
            "The interval of high watermark checkpoints."),
    # From Kafka before 0.9, which removed followers during bursts; hence the second consecutive check.
    Setting("replica.lag.max.messages", SettingKind.LONG, "-1",
            "The number of missing records beyond which a follower is removed from the ISR, if exceeded in two "
            "consecutive checks. -1: no limit.", AtLeast(-1)),
    Setting("replica.lag.time.max.ms", SettingKind.LONG, "30000",
            "The time after which a follower that has not caught up is removed from the ISR."),
    Setting("replica.selector.class", SettingKind.STRING, None,
            "The replica that consumers read from. Unset: the leader; "
            "org.apache.kafka.common.replica.RackAwareReplicaSelector: an in-sync replica in the consumer's rack.",
            OneOf(RACK_AWARE, LEADER_ONLY, "")),
    Setting("replica.socket.receive.buffer.bytes", SettingKind.INT, "65536",
            "SO_RCVBUF of a follower's connection."),
    Setting("replica.socket.timeout.ms", SettingKind.INT, "30000",
            "The maximum time that a follower waits for a response; at least replica.fetch.wait.max.ms."),
    Setting("barnabas.reassignment.throttled.rate", SettingKind.LONG, str(MAX_LONG),
            "The maximum rate, in bytes per second, at which a broker copies data to replicas added by a reassignment, "
            "manual or automatic. The replicas need not be listed as throttled.",
            AtLeast(1), mode=UpdateMode.CLUSTER_WIDE),
    Setting("barnabas.balance.auto", SettingKind.BOOLEAN, "false",
            "Whether the controller rebalances replicas and leaders automatically after brokers were added."),
    Setting("barnabas.balance.quiet.ms", SettingKind.LONG, "300000",
            "The time without brokers joining or leaving before an automatic rebalance starts.", AtLeast(0)),
    Setting("barnabas.balance.partitions.at.once", SettingKind.INT, "10",
            "The maximum number of partitions that the controller moves concurrently.", AtLeast(1)),
    Setting("barnabas.balance.processes", SettingKind.BOOLEAN, "true",
            "Whether new processes of a node (`serve --processes`) get their share of its partitions."),
    Setting("barnabas.processes", SettingKind.STRING, "1",
            "The number of broker processes of this node, each with an event loop and a port; auto: one for each "
            "usable CPU. With 1, no supervisor is started. `serve --processes` overrides it.",
            Matching("auto|[1-9][0-9]{0,2}", "a number from 1 to 256, or auto")),
    Setting("barnabas.processes.port.step", SettingKind.INT, "1",
            "The distance of the ports of a node's processes: process k listens on port + k * step.", AtLeast(1)),
    Setting("barnabas.replica.replace.after.ms", SettingKind.LONG, "-1",
            "The time after which the replicas of an unavailable broker are moved to other brokers. -1: never. Not "
            "while more than a third of the brokers are unavailable; unfinished moves are cancelled when the broker "
            "returns.", AtLeast(-1)),
    Setting("leader.replication.throttled.rate", SettingKind.LONG, str(MAX_LONG),
            "The maximum rate, in bytes per second, at which a leader sends to throttled replicas.",
            AtLeast(0), mode=UpdateMode.CLUSTER_WIDE, internal=True),
    Setting("follower.replication.throttled.rate", SettingKind.LONG, str(MAX_LONG),
            "The maximum rate, in bytes per second, at which a follower fetches for throttled replicas.",
            AtLeast(0), mode=UpdateMode.CLUSTER_WIDE, internal=True),
    Setting("replica.alter.log.dirs.io.max.bytes.per.second", SettingKind.LONG, str(MAX_LONG),
            "The maximum rate, in bytes per second, at which replicas are moved to another log directory.",
            AtLeast(0), mode=UpdateMode.CLUSTER_WIDE, internal=True),
)  # fmt: skip


_FOREVER = str(MAX_LONG)

_OWN_LOG_SETTINGS: tuple[Setting, ...] = (
    Setting("log.dirs", SettingKind.LIST, None, "The data directories, separated by commas. Default: log.dir."),
    # Kafka's /tmp/kafka-logs does not survive a reboot.
    Setting("log.dir", SettingKind.LIST, "./barnabas-data", "The data directory, if log.dirs is not set."),
    Setting("cordoned.log.dirs", SettingKind.LIST, "",
            "Data directories that get no new partitions, unless all are cordoned.", mode=UpdateMode.PER_BROKER),
    Setting("num.recovery.threads.per.data.dir", SettingKind.INT, "2",
            "The number of workers per data directory that recover logs after an unclean shutdown.", AtLeast(1),
            mode=UpdateMode.CLUSTER_WIDE),
    Setting("log.retention.check.interval.ms", SettingKind.LONG, "300000",
            "The interval between checks for segments to delete.", AtLeast(1)),
    Setting("log.flush.scheduler.interval.ms", SettingKind.LONG, _FOREVER,
            "The interval between checks for logs to flush; also the fallback of log.flush.interval.ms."),
    Setting("log.flush.offset.checkpoint.interval.ms", SettingKind.INT, "60000",
            "The interval of recovery point checkpoints.", AtLeast(0)),
    Setting("log.flush.start.offset.checkpoint.interval.ms", SettingKind.INT, "60000",
            "The interval of log start offset checkpoints.", AtLeast(0)),
    Setting("log.retention.ms", SettingKind.LONG, None,
            "Default of the topic setting retention.ms. If unset: log.retention.minutes.",
            mode=UpdateMode.CLUSTER_WIDE),
    Setting("log.retention.minutes", SettingKind.INT, None,
            "log.retention.ms in minutes. If unset: log.retention.hours."),
    Setting("log.retention.hours", SettingKind.INT, "168", "log.retention.ms in hours."),
    Setting("log.roll.ms", SettingKind.LONG, None,
            "Default of the topic setting segment.ms. If unset: log.roll.hours.", mode=UpdateMode.CLUSTER_WIDE),
    Setting("log.roll.hours", SettingKind.INT, "168", "log.roll.ms in hours.", AtLeast(1)),
    Setting("log.roll.jitter.ms", SettingKind.LONG, None,
            "Default of the topic setting segment.jitter.ms. If unset: log.roll.jitter.hours.",
            mode=UpdateMode.CLUSTER_WIDE),
    Setting("log.roll.jitter.hours", SettingKind.INT, "0", "log.roll.jitter.ms in hours.", AtLeast(0)),
    Setting("log.flush.interval.ms", SettingKind.LONG, None,
            "Default of the topic setting flush.ms. If unset: log.flush.scheduler.interval.ms.",
            mode=UpdateMode.CLUSTER_WIDE),
    Setting("log.cleaner.enable", SettingKind.BOOLEAN, "true",
            "Whether to compact topics with cleanup.policy=compact."),
    Setting("log.cleaner.threads", SettingKind.INT, "1", "The number of worker processes for compaction.", AtLeast(0),
            mode=UpdateMode.CLUSTER_WIDE),
    Setting("log.cleaner.backoff.ms", SettingKind.LONG, "15000",
            "The time to wait when no log needs compaction.", AtLeast(0), mode=UpdateMode.CLUSTER_WIDE),
    Setting("log.cleaner.dedupe.buffer.size", SettingKind.LONG, "134217728",
            "The memory for the keys of one compaction.", mode=UpdateMode.CLUSTER_WIDE),
    Setting("log.cleaner.io.max.bytes.per.second", SettingKind.DOUBLE, "1.7976931348623157E308",
            "The maximum rate of reads and writes by compaction.", mode=UpdateMode.CLUSTER_WIDE),
    Setting("producer.id.expiration.ms", SettingKind.INT, "86400000",
            "The idle time after which the producer state of a producer id expires.",
            AtLeast(1),
            mode=UpdateMode.CLUSTER_WIDE),
    Setting("producer.id.expiration.check.interval.ms", SettingKind.INT, "600000",
            "The interval between checks for expired producer ids.", AtLeast(1), internal=True),
    Setting("log.initial.task.delay.ms", SettingKind.LONG, "30000",
            "The delay of the first background tasks after the start.", AtLeast(0), internal=True),
    # NTP steps are smaller; a larger step is a mistake, or the correction of one.
    Setting("barnabas.clock.jump.ms", SettingKind.LONG, "300000",
            "The forward step of the wall clock, relative to the time since boot, beyond which expiry is paused: "
            "records, offsets, producer ids, transactions and transactional ids keep their remaining time. Only on "
            "systems whose time since boot includes suspension (Linux).", AtLeast(1000),
            mode=UpdateMode.CLUSTER_WIDE),
    Setting("barnabas.clock.jump.pause.ms", SettingKind.LONG, "3600000",
            "The time after such a step during which expiry uses the old time, unless the clock is set back earlier. "
            "0 accepts the new time at once: set it for a moment, then remove it.", AtLeast(0),
            mode=UpdateMode.CLUSTER_WIDE),
    Setting("barnabas.acks.all.fsync", SettingKind.STRING, "auto",
            "Whether acks=all waits for fsync: 'always', 'never' (as in Kafka), or 'auto' (only if no other machine "
            "has a replica of the record).", OneOf("auto", "always", "never"), mode=UpdateMode.CLUSTER_WIDE),
    # Small compared with a disk, but enough to write checkpoints and snapshots.
    Setting("barnabas.disk.reserve.bytes", SettingKind.LONG, "-1",
            "The minimum free space on the disk of a data directory. Below it, appends are refused, so that cleanup "
            "and a clean shutdown remain possible. -1: 128 MiB, or 5% of a smaller volume. 0: disabled.", AtLeast(-1)),
    # A write to the page cache takes microseconds. This is ten times the longest allowed block of the event loop.
    Setting("barnabas.log.dir.slow.write.ms", SettingKind.INT, "100",
            "The duration of a write beyond which it counts as slow. After several slow writes a thread writes to the "
            "data directory until it is fast again, so that other directories and all connections stay responsive. 0: "
            "disabled.",
            AtLeast(0)),
)  # fmt: skip


def _topic_defaults() -> tuple[Setting, ...]:
    """Broker settings that only provide the default of a topic setting."""
    own = {setting.name for setting in _OWN_LOG_SETTINGS}
    return tuple(
        setting._replace(
            name=synonyms[0].name,
            documentation=f"Default of the topic setting {setting.name}: {setting.documentation}",
            mode=UpdateMode.CLUSTER_WIDE,
        )
        for setting in TOPIC_SETTINGS
        if (synonyms := TOPIC_SYNONYMS.get(setting.name)) and synonyms[0].name not in own
    )


LOG_SETTINGS: tuple[Setting, ...] = _OWN_LOG_SETTINGS + _topic_defaults()
