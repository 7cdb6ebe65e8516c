"""Broker settings of groups, transactions, share groups and telemetry, and group settings."""

from __future__ import annotations

from barnabas.config.checks import AtLeast, Between, ListCheck, Matching, NonEmptyItems, OneOf
from barnabas.config.setting import MAX_INT, Setting, SettingKind, UpdateMode

OFFSET_SETTINGS: tuple[Setting, ...] = (
    Setting("offsets.topic.num.partitions", SettingKind.INT, "50",
            "The number of partitions of __consumer_offsets at its creation.", AtLeast(1)),
    Setting("offsets.topic.replication.factor", SettingKind.SHORT, "3",
            "The replication factor of __consumer_offsets at its creation; at most the number of brokers.",
            AtLeast(1)),
    # Kafka's default is 100 MB. A new coordinator must read all records that are not compacted yet before it serves.
    Setting("offsets.topic.segment.bytes", SettingKind.INT, "8388608",
            "The segment size of __consumer_offsets.", AtLeast(1)),
    Setting("offsets.topic.compression.codec", SettingKind.INT, "0",
            "The codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.", Between(0, 4)),
    Setting("offsets.retention.minutes", SettingKind.INT, "10080",
            "The retention time of the offsets of a group without members.", AtLeast(1)),
    Setting("offsets.retention.check.interval.ms", SettingKind.LONG, "600000",
            "The interval between checks for expired offsets.", AtLeast(1)),
    Setting("offsets.commit.timeout.ms", SettingKind.INT, "5000",
            "The maximum time for an offset commit to be replicated.", AtLeast(1)),
    Setting("offset.metadata.max.bytes", SettingKind.INT, "4096",
            "The maximum size of the metadata string of an offset commit."),
)  # fmt: skip

GROUP_COORDINATOR_SETTINGS: tuple[Setting, ...] = (
    Setting("group.coordinator.rebalance.protocols", SettingKind.LIST, "classic,consumer,streams",
            "The enabled group protocols.", ListCheck("consumer", "classic", "share", "streams")),
    Setting("group.initial.rebalance.delay.ms", SettingKind.INT, "3000",
            "The time that a new classic group waits for more members before its first rebalance. The default is 0 "
            "on a node without ZooKeeper."),
    Setting("group.min.session.timeout.ms", SettingKind.INT, "6000",
            "The minimum session timeout of classic group members."),
    Setting("group.max.session.timeout.ms", SettingKind.INT, "1800000",
            "The maximum session timeout of classic group members."),
    Setting("group.max.size", SettingKind.INT, str(MAX_INT),
            "The maximum number of members of a classic group.", AtLeast(1)),
    # Kafka has none of these four. They bound state that clients can create freely, for all groups of a broker.
    Setting("barnabas.groups.max", SettingKind.INT, "100000",
            "The maximum number of groups, of all types, that a broker coordinates.", AtLeast(1)),
    Setting("barnabas.groups.max.members", SettingKind.INT, "100000",
            "The maximum number of members of all groups of a broker, including pending members.",
            AtLeast(1)),
    Setting("barnabas.groups.max.bytes", SettingKind.LONG, "536870912",
            "The maximum memory for data of members of all groups (metadata, assignments, subscriptions, topologies), "
            "and separately for committed offsets.", AtLeast(1)),
    # 10,000 names block the event loop for 30 ms; a record of 1 MiB has room for about 40,000.
    Setting("barnabas.groups.max.subscribed.topics", SettingKind.INT, "10000",
            "The maximum number of topic names in the subscription of a consumer or share group member.", AtLeast(1)),
    Setting("barnabas.groups.max.member.metadata.bytes", SettingKind.INT, "1048576",
            "The maximum size of the metadata in a JoinGroup request, summed over all protocols: topic names and data "
            "of the assignor. Kafka Streams with 5,000 tasks needs 100 KB.", AtLeast(1)),
    Setting("group.consumer.assignors", SettingKind.LIST, "uniform,range",
            "The server-side assignors of consumer groups; the first is the default.", ListCheck("uniform", "range")),
    Setting("group.consumer.migration.policy", SettingKind.STRING, "bidirectional",
            "The allowed conversions between the classic and the consumer protocol of a group with members.",
            OneOf("disabled", "downgrade", "upgrade", "bidirectional", ignore_case=True)),
    Setting("group.consumer.max.size", SettingKind.INT, str(MAX_INT),
            "The maximum number of members of a consumer group.", AtLeast(1)),
    Setting("group.consumer.regex.refresh.interval.ms", SettingKind.INT, "600000",
            "The interval at which subscribed patterns are resolved again.", AtLeast(10000), internal=True),
    Setting("group.share.assignors", SettingKind.LIST, "simple",
            "The assignors of share groups: simple.", ListCheck("simple")),
    Setting("group.share.max.size", SettingKind.INT, "200",
            "The maximum number of members of a share group.", Between(1, 1000)),
    Setting("group.share.initialize.retry.interval.ms", SettingKind.INT, "30000",
            "The time after which the initialization of share partitions is retried.", AtLeast(1),
            internal=True),
    Setting("group.share.max.share.sessions", SettingKind.INT, "2000",
            "The maximum number of share sessions.", AtLeast(1)),
    Setting("group.share.min.delivery.count.limit", SettingKind.INT, "2",
            "The minimum share.delivery.count.limit of a group.", Between(2, 5)),
    Setting("group.share.max.delivery.count.limit", SettingKind.INT, "10",
            "The maximum share.delivery.count.limit of a group.", Between(5, 25)),
    Setting("group.share.min.partition.max.record.locks", SettingKind.INT, "100",
            "The minimum share.partition.max.record.locks of a group.", Between(100, 2000)),
    Setting("group.share.max.partition.max.record.locks", SettingKind.INT, "4000",
            "The maximum share.partition.max.record.locks of a group.", Between(2000, 10000)),
    Setting("group.share.min.record.lock.duration.ms", SettingKind.INT, "15000",
            "The minimum share.record.lock.duration.ms of a group.", Between(1000, 30000)),
    Setting("group.share.max.record.lock.duration.ms", SettingKind.INT, "60000",
            "The maximum share.record.lock.duration.ms of a group.", Between(30000, 3600000)),
    Setting("group.streams.max.size", SettingKind.INT, str(MAX_INT),
            "The maximum number of members of a streams group.", AtLeast(1)),
    Setting("barnabas.streams.topology.description.max.bytes", SettingKind.INT, "131072",
            "The maximum size of the topology description stored with a streams group (KIP-1331). 0: descriptions are "
            "not requested, as in a Kafka without a plugin for them.", Between(0, 786432)),
    Setting("group.streams.max.standby.replicas", SettingKind.INT, "2",
            "The maximum streams.num.standby.replicas of a group.", AtLeast(0)),
    # Warm-up tasks are part of Kafka 4.4.
    Setting("group.streams.max.warmup.replicas", SettingKind.INT, "20",
            "The maximum streams.num.warmup.replicas of a group.", AtLeast(0)),
    Setting("group.streams.min.task.offset.interval.ms", SettingKind.INT, "15000",
            "The minimum streams.task.offset.interval.ms of a group.", AtLeast(1)),
)  # fmt: skip

GROUP_SETTINGS: tuple[Setting, ...] = (
    Setting("share.auto.offset.reset", SettingKind.STRING, "latest",
            "The initial position of a share group: 'latest', 'earliest' or 'by_duration:' followed by an ISO 8601 "
            "duration.",
            Matching(r"latest|earliest|by_duration:P(?=.)([0-9]{1,9}D)?(T(?=.)([0-9]{1,9}H)?([0-9]{1,9}M)?([0-9]{1,9}(\.[0-9]{0,9})?S)?)?",
                     "latest, earliest or by_duration:PnDTnHnMn.nS")),
    Setting("share.isolation.level", SettingKind.STRING, "read_uncommitted",
            "The isolation level of a share group: read_uncommitted includes records of open and aborted "
            "transactions.",
            OneOf("read_committed", "read_uncommitted")),
    Setting("share.delivery.count.limit", SettingKind.INT, "5",
            "The maximum number of delivery attempts of a record to a share group.", AtLeast(2)),
    Setting("share.partition.max.record.locks", SettingKind.INT, "2000",
            "The maximum number of records of a partition that a share group has acquired.", AtLeast(100)),
    Setting("share.record.lock.duration.ms", SettingKind.INT, "30000",
            "The duration of the acquisition lock on a record delivered to a share group.", AtLeast(1000)),
    Setting("share.renew.acknowledge.enable", SettingKind.BOOLEAN, "true",
            "Whether members of a share group may renew the acquisition lock on a record."),
    # Dead letters are from KIP-1191, part of Kafka 4.4.
    Setting("errors.deadletterqueue.topic.name", SettingKind.STRING, "",
            "The topic for dead letters of a share group: records that were rejected or reached the delivery limit. "
            "The name must begin with errors.deadletterqueue.topic.name.prefix. Empty: such records are dropped."),
    Setting("errors.deadletterqueue.copy.record.enable", SettingKind.BOOLEAN, "false",
            "Whether a dead letter contains the key, value and headers of its record, or only its topic, partition "
            "and offset."),
    Setting("streams.initial.rebalance.delay.ms", SettingKind.INT, "3000",
            "The time that a new streams group waits for more members before tasks are assigned.", AtLeast(0)),
    Setting("streams.num.standby.replicas", SettingKind.INT, "0",
            "The number of standby replicas of each task.", AtLeast(0)),
    # The next four are from KIP-1071 as in Kafka 4.4.
    Setting("streams.num.warmup.replicas", SettingKind.INT, "2",
            "The maximum number of warm-up tasks at a time: before a task with state moves, its new owner restores the "
            "state while the old one processes. 0: tasks move immediately, as they do between clients before 4.4.",
            AtLeast(0)),
    Setting("streams.acceptable.recovery.lag", SettingKind.LONG, "10000",
            "The number of records that a warm-up task may be behind when it becomes active.", AtLeast(0)),
    Setting("streams.task.offset.interval.ms", SettingKind.INT, "60000",
            "The interval at which members report the changelog offsets of their tasks.", AtLeast(1)),
    Setting("streams.rack.aware.assignment.tags", SettingKind.LIST, "",
            "Client tags (client.tag.NAME in the client) by which the standbys of a task are spread: onto clients with "
            "other values than those that have the task.", NonEmptyItems()),
    *(Setting(f"{kind}.{name}", SettingKind.INT, default, f"{text} a {kind} group.", AtLeast(low))
      for kind in ("consumer", "share", "streams")
      for name, default, low, text in (
          ("assignment.interval.ms", "1000", 0, "The minimum time between two assignments of"),
          ("heartbeat.interval.ms", "5000", 1, "The heartbeat interval of the members of"),
          ("session.timeout.ms", "45000", 1, "The time without heartbeats after which a member is removed from"),
      )),
)  # fmt: skip

_WITHOUT_BROKER_DEFAULT = frozenset(
    (
        "share.auto.offset.reset",
        "share.isolation.level",
        "share.renew.acknowledge.enable",
        "errors.deadletterqueue.topic.name",
        "errors.deadletterqueue.copy.record.enable",
    )
)

GROUP_SYNONYMS: dict[str, str] = {
    setting.name: f"group.{setting.name}"
    for setting in GROUP_SETTINGS
    if setting.name not in _WITHOUT_BROKER_DEFAULT
}
"""Broker setting with the default of each group setting."""

_CEILINGS: dict[str, Between] = {
    "share.delivery.count.limit": Between(2, 10),
    "share.partition.max.record.locks": Between(100, 10000),
    "share.record.lock.duration.ms": Between(1000, 3600000),
}


def _group_defaults() -> tuple[Setting, ...]:
    """Broker settings with the defaults of group settings."""
    return tuple(
        setting._replace(
            name=GROUP_SYNONYMS[setting.name],
            documentation=f"Default of the group setting {setting.name}: {setting.documentation}",
            check=_CEILINGS.get(setting.name, setting.check),
            mode=UpdateMode.CLUSTER_WIDE if "assignment.interval" in setting.name else UpdateMode.READ_ONLY,
        )
        for setting in GROUP_SETTINGS
        if setting.name in GROUP_SYNONYMS
    )


def _group_bounds() -> tuple[Setting, ...]:
    """Broker settings that bound the timings of groups."""
    return tuple(
        Setting(
            f"group.{kind}.{bound}.{name}",
            SettingKind.INT,
            default,
            f"The {bound}imum {kind}.{name} of a group.",
            AtLeast(low),
        )
        for kind in ("consumer", "share", "streams")
        for bound, name, default, low in (
            ("min", "assignment.interval.ms", "0", 0),
            ("max", "assignment.interval.ms", "15000", 0),
            ("min", "heartbeat.interval.ms", "5000", 1),
            ("max", "heartbeat.interval.ms", "15000", 1),
            ("min", "session.timeout.ms", "45000", 1),
            ("max", "session.timeout.ms", "60000", 1),
        )
    )


TRANSACTION_SETTINGS: tuple[Setting, ...] = (
    Setting("transaction.max.timeout.ms", SettingKind.INT, "900000",
            "The maximum transaction timeout of producers.", AtLeast(1)),
    Setting("transactional.id.expiration.ms", SettingKind.INT, "604800000",
            "The idle time after which a transactional id expires.", AtLeast(1)),
    Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", SettingKind.INT, "10000",
            "The interval between checks for timed-out transactions.", AtLeast(1)),
    Setting("transaction.remove.expired.transaction.cleanup.interval.ms", SettingKind.INT, "3600000",
            "The interval between checks for expired transactional ids.", AtLeast(1)),
    Setting("transaction.partition.verification.enable", SettingKind.BOOLEAN, "true",
            "Whether to verify that a partition belongs to the transaction before transactional records are appended.",
            mode=UpdateMode.CLUSTER_WIDE),
    # Kafka disables it because its clients do not support it yet. Ours do, and the exactly-once sink needs it
    # (decision 0016).
    Setting("transaction.two.phase.commit.enable", SettingKind.BOOLEAN, "true",
            "Whether producers may keep transactions open without a timeout for two-phase commit (KIP-939)."),
    # A sink has one per concurrently writing task, far fewer than this.
    Setting("barnabas.transactions.without.timeout.max", SettingKind.INT, "5000",
            "The maximum number of open transactions without a timeout per coordinator. Beyond it, new ones are "
            "refused with POLICY_VIOLATION.", AtLeast(0), mode=UpdateMode.CLUSTER_WIDE),
    Setting("barnabas.transactions.without.timeout.per.prefix.max", SettingKind.INT, "2000",
            "The same for transactional ids with a common prefix: the parts, separated by - or ., before the first "
            "one that begins with a digit.", AtLeast(0), mode=UpdateMode.CLUSTER_WIDE),
    # About 1 KB each.
    Setting("barnabas.transactional.ids.max", SettingKind.INT, "50000",
            "The maximum number of transactional ids per coordinator. A new one evicts the longest idle one; if none "
            "is idle, it is refused with POLICY_VIOLATION.",
            AtLeast(1), mode=UpdateMode.CLUSTER_WIDE),
    Setting("transaction.state.log.num.partitions", SettingKind.INT, "50",
            "The number of partitions of __transaction_state at its creation.", AtLeast(1)),
    Setting("transaction.state.log.replication.factor", SettingKind.SHORT, "3",
            "The replication factor of __transaction_state at its creation; at most the number of brokers.",
            AtLeast(1)),
    Setting("transaction.state.log.min.isr", SettingKind.INT, "2",
            "min.insync.replicas of __transaction_state.", AtLeast(1)),
    # See offsets.topic.segment.bytes.
    Setting("transaction.state.log.segment.bytes", SettingKind.INT, "8388608",
            "The segment size of __transaction_state.", AtLeast(1)),
)  # fmt: skip

SHARE_COORDINATOR_SETTINGS: tuple[Setting, ...] = (
    Setting("errors.deadletterqueue.topic.name.prefix", SettingKind.STRING, "dlq.",
            "The prefix that names of dead-letter topics must have, so that a share group cannot be used to write to "
            "arbitrary topics.", mode=UpdateMode.CLUSTER_WIDE),
    Setting("errors.deadletterqueue.auto.create.topics.enable", SettingKind.BOOLEAN, "false",
            "Whether to create missing dead-letter topics of share groups.", mode=UpdateMode.CLUSTER_WIDE),
    Setting("share.coordinator.state.topic.num.partitions", SettingKind.INT, "50",
            "The number of partitions of __share_group_state at its creation.", AtLeast(1)),
    Setting("share.coordinator.state.topic.replication.factor", SettingKind.SHORT, "3",
            "The replication factor of __share_group_state at its creation; at most the number of brokers.",
            AtLeast(1)),
    Setting("share.coordinator.state.topic.min.isr", SettingKind.SHORT, "2",
            "min.insync.replicas of __share_group_state.", AtLeast(1)),
    Setting("share.coordinator.state.topic.segment.bytes", SettingKind.INT, "104857600",
            "The segment size of __share_group_state.", AtLeast(1)),
    Setting("share.coordinator.write.timeout.ms", SettingKind.INT, "5000",
            "The maximum time for a write of share state to be replicated.", AtLeast(1)),
    Setting("share.coordinator.snapshot.update.records.per.snapshot", SettingKind.INT, "500",
            "The number of update records of a share partition between two snapshots of its state.", Between(0, 500)),
    Setting("share.coordinator.state.topic.prune.interval.ms", SettingKind.INT, "300000",
            "The interval at which obsolete records of __share_group_state are deleted.", AtLeast(1),
            internal=True),
)  # fmt: skip

TELEMETRY_SETTINGS: tuple[Setting, ...] = (
    Setting("telemetry.max.bytes", SettingKind.INT, "1048576",
            "The maximum size of a PushTelemetry payload as sent, compressed or not.", AtLeast(1)),
    Setting("barnabas.telemetry.max.decompressed.bytes", SettingKind.INT, "33554432",
            "The maximum size of a PushTelemetry payload after decompression.", AtLeast(1)),
    Setting("barnabas.telemetry.max.points", SettingKind.INT, "100000",
            "The maximum number of data points per push. A Java consumer sends 90, plus seven per partition.",
            AtLeast(1)),
    Setting("barnabas.telemetry.cpu.percent", SettingKind.DOUBLE, "20",
            "The maximum CPU time for client metrics, in percent of one core, averaged over a minute. It is shared "
            "equally by principals, and by addresses for clients without authentication.", AtLeast(0)),
    Setting("barnabas.telemetry.max.clients", SettingKind.INT, "16384",
            "The maximum number of clients whose metrics are kept. A new one evicts the longest idle one.",
            AtLeast(1)),
    Setting("barnabas.telemetry.max.series", SettingKind.INT, "10000",
            "The maximum number of series of all clients at /metrics. Further ones are dropped.", AtLeast(1)),
)  # fmt: skip

COORDINATOR_SETTINGS: tuple[Setting, ...] = (
    *OFFSET_SETTINGS,
    *GROUP_COORDINATOR_SETTINGS,
    *_group_defaults(),
    *_group_bounds(),
    *TRANSACTION_SETTINGS,
    *SHARE_COORDINATOR_SETTINGS,
    *TELEMETRY_SETTINGS,
)

CLIENT_METRICS_SETTINGS: tuple[Setting, ...] = (
    Setting("interval.ms", SettingKind.INT, "300000",
            "The interval at which clients push metrics.", Between(100, 3600000)),
    Setting("match", SettingKind.LIST, "", "The clients that push metrics: selector=pattern, separated by commas."),
    Setting("metrics", SettingKind.LIST, "", "The prefixes of the metrics to push; * for all."),
)  # fmt: skip
