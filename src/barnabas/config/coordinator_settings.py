"""The broker's settings of groups and transactions, and the settings that a single group may override."""

from __future__ import annotations

from barnabas.config.checks import AtLeast, Between, ListOf, Matching, OneOf
from barnabas.config.setting import MAX_INT, Kind, Mode, Setting

OFFSET_SETTINGS: tuple[Setting, ...] = (
    Setting("offsets.topic.num.partitions", Kind.INT, "50",
            "Partitions of __consumer_offsets, when it is created.", AtLeast(1)),
    Setting("offsets.topic.replication.factor", Kind.SHORT, "3",
            "Replicas of __consumer_offsets, when it is created; as many as there are brokers if those are "
            "fewer.",
            AtLeast(1)),
    # Kafka's default is 100 MB. What is not compacted yet must be read before a new coordinator can serve.
    Setting("offsets.topic.segment.bytes", Kind.INT, "8388608",
            "Segment size of __consumer_offsets.", AtLeast(1)),
    Setting("offsets.topic.compression.codec", Kind.INT, "0",
            "Codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.", Between(0, 4)),
    Setting("offsets.retention.minutes", Kind.INT, "10080",
            "How long the offsets of a group without members are kept.", AtLeast(1)),
    Setting("offsets.retention.check.interval.ms", Kind.LONG, "600000",
            "How often to look for offsets to drop.", AtLeast(1)),
    Setting("offsets.commit.timeout.ms", Kind.INT, "5000",
            "How long a commit may wait for its replicas.", AtLeast(1)),
    Setting("offset.metadata.max.bytes", Kind.INT, "4096",
            "The longest text that a client may store with an offset."),
)  # fmt: skip

GROUP_COORDINATOR_SETTINGS: tuple[Setting, ...] = (
    Setting("group.coordinator.rebalance.protocols", Kind.LIST, "classic,consumer,streams",
            "The group protocols that are served.", ListOf("consumer", "classic", "share", "streams")),
    Setting("group.initial.rebalance.delay.ms", Kind.INT, "3000",
            "How long a new classic group waits for more members before it is balanced. "
            "0 by default on a node without ZooKeeper."),
    Setting("group.min.session.timeout.ms", Kind.INT, "6000",
            "The shortest session timeout that a classic member may ask for."),
    Setting("group.max.session.timeout.ms", Kind.INT, "1800000",
            "The longest session timeout that a classic member may ask for."),
    Setting("group.max.size", Kind.INT, str(MAX_INT), "Members that a classic group may have.", AtLeast(1)),
    # Kafka has none of these four: what anybody may invent is bounded for all groups of a broker together.
    Setting("barnabas.groups.max", Kind.INT, "100000",
            "Groups of every type that a broker may coordinate.", AtLeast(1)),
    Setting("barnabas.groups.max.members", Kind.INT, "100000",
            "Members that all groups of a broker may have together, those included that are about to join.",
            AtLeast(1)),
    Setting("barnabas.groups.max.bytes", Kind.LONG, "536870912",
            "Memory for what members of all groups have said (metadata, assignments, subscriptions, topologies), "
            "and, counted by itself, for committed offsets.", AtLeast(1)),
    # 10,000 hold the loop for 30 ms; a record of 1 MiB holds the names of some 40,000.
    Setting("barnabas.groups.max.subscribed.topics", Kind.INT, "10000",
            "Topics that a member of a consumer or share group may subscribe to by name.", AtLeast(1)),
    Setting("barnabas.groups.max.member.metadata.bytes", Kind.INT, "1048576",
            "What a member of a classic group may say when it joins, under all its protocols together: names of "
            "topics, and data of its assignor. Kafka Streams with 5,000 tasks needs 100 KB.", AtLeast(1)),
    Setting("group.consumer.assignors", Kind.LIST, "uniform,range",
            "Assignors of consumer groups on this side; the first is the default.", ListOf("uniform", "range")),
    Setting("group.consumer.migration.policy", Kind.STRING, "bidirectional",
            "Which way a group may move between the classic and the consumer protocol while it has members.",
            OneOf("disabled", "downgrade", "upgrade", "bidirectional", ignore_case=True)),
    Setting("group.consumer.max.size", Kind.INT, str(MAX_INT),
            "Members that a consumer group may have.", AtLeast(1)),
    Setting("group.consumer.regex.refresh.interval.ms", Kind.INT, "600000",
            "How often subscriptions by pattern are matched again.", AtLeast(10000), internal=True),
    Setting("group.share.assignors", Kind.LIST, "simple", "Assignors of share groups: simple.", ListOf("simple")),
    Setting("group.share.max.size", Kind.INT, "200", "Members a share group may have.", Between(1, 1000)),
    Setting("group.share.initialize.retry.interval.ms", Kind.INT, "30000",
            "How long creating the state of share partitions may take before it is begun again.", AtLeast(1),
            internal=True),
    Setting("group.share.max.share.sessions", Kind.INT, "2000", "Share sessions that are kept.", AtLeast(1)),
    Setting("group.share.min.delivery.count.limit", Kind.INT, "2",
            "The lowest share.delivery.count.limit that a group may set.", Between(2, 5)),
    Setting("group.share.max.delivery.count.limit", Kind.INT, "10",
            "The highest share.delivery.count.limit that a group may set.", Between(5, 25)),
    Setting("group.share.min.partition.max.record.locks", Kind.INT, "100",
            "The lowest share.partition.max.record.locks that a group may set.", Between(100, 2000)),
    Setting("group.share.max.partition.max.record.locks", Kind.INT, "4000",
            "The highest share.partition.max.record.locks that a group may set.", Between(2000, 10000)),
    Setting("group.share.min.record.lock.duration.ms", Kind.INT, "15000",
            "The lowest share.record.lock.duration.ms that a group may set.", Between(1000, 30000)),
    Setting("group.share.max.record.lock.duration.ms", Kind.INT, "60000",
            "The highest share.record.lock.duration.ms that a group may set.", Between(30000, 3600000)),
    Setting("group.streams.max.size", Kind.INT, str(MAX_INT),
            "Members that a streams group may have.", AtLeast(1)),
    Setting("barnabas.streams.topology.description.max.bytes", Kind.INT, "131072",
            "The longest description of a streams topology that is kept with its group (KIP-1331). 0: members are not "
            "asked for one, as with a Kafka that has no plugin for it.", Between(0, 786432)),
    Setting("group.streams.max.standby.replicas", Kind.INT, "2",
            "The highest streams.num.standby.replicas that a group may set.", AtLeast(0)),
)  # fmt: skip

GROUP_SETTINGS: tuple[Setting, ...] = (
    Setting("share.auto.offset.reset", Kind.STRING, "latest",
            "Where a share group starts to read: 'latest', 'earliest' or 'by_duration:' and an ISO 8601 "
            "duration.",
            Matching(r"latest|earliest|by_duration:P(?=.)([0-9]{1,9}D)?(T(?=.)([0-9]{1,9}H)?([0-9]{1,9}M)?([0-9]{1,9}(\.[0-9]{0,9})?S)?)?",
                     "latest, earliest or by_duration:PnDTnHnMn.nS")),
    Setting("share.isolation.level", Kind.STRING, "read_uncommitted",
            "Whether a share group sees records of open transactions.",
            OneOf("read_committed", "read_uncommitted")),
    Setting("share.delivery.count.limit", Kind.INT, "5",
            "How often a record is delivered to a share group before it is given up.", AtLeast(2)),
    Setting("share.partition.max.record.locks", Kind.INT, "2000",
            "Records of a partition that a share group may have in work.", AtLeast(100)),
    Setting("share.record.lock.duration.ms", Kind.INT, "30000",
            "How long a member of a share group has for a record.", AtLeast(1000)),
    Setting("share.renew.acknowledge.enable", Kind.BOOLEAN, "true",
            "Let a member of a share group ask for more time for a record."),
    # Dead letters are KIP-1191's, which came with Kafka 4.4.
    Setting("errors.deadletterqueue.topic.name", Kind.STRING, "",
            "The topic that gets what a share group has given up: rejected records, and those delivered too "
            "often. Empty: they are dropped. Its name must begin with errors.deadletterqueue.topic.name.prefix."),
    Setting("errors.deadletterqueue.copy.record.enable", Kind.BOOLEAN, "false",
            "Whether a dead letter has the key, value and headers of its record, or only says where it is."),
    Setting("streams.initial.rebalance.delay.ms", Kind.INT, "3000",
            "How long a new streams group waits for more members before tasks are assigned.", AtLeast(0)),
    Setting("streams.num.standby.replicas", Kind.INT, "0",
            "Standby copies of each task's state.", AtLeast(0)),
    *(Setting(f"{kind}.{name}", Kind.INT, default, f"{text} a {kind} group.", AtLeast(low))
      for kind in ("consumer", "share", "streams")
      for name, default, low, text in (
          ("assignment.interval.ms", "1000", 0, "The shortest time between two assignments in"),
          ("heartbeat.interval.ms", "5000", 1, "How often the coordinator wants to hear from members of"),
          ("session.timeout.ms", "45000", 1, "How long a member may be silent before it is dropped from"),
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
"""The broker setting that is the default of each group setting."""

_CEILINGS: dict[str, Between] = {
    "share.delivery.count.limit": Between(2, 10),
    "share.partition.max.record.locks": Between(100, 10000),
    "share.record.lock.duration.ms": Between(1000, 3600000),
}


def _group_defaults() -> tuple[Setting, ...]:
    """The broker settings that are the defaults of group settings."""
    return tuple(
        setting._replace(
            name=GROUP_SYNONYMS[setting.name],
            documentation=f"Default of the group setting {setting.name}: {setting.documentation}",
            check=_CEILINGS.get(setting.name, setting.check),
            mode=Mode.CLUSTER_WIDE if "assignment.interval" in setting.name else Mode.READ_ONLY,
        )
        for setting in GROUP_SETTINGS
        if setting.name in GROUP_SYNONYMS
    )


def _group_bounds() -> tuple[Setting, ...]:
    """How far a group may move its own timings."""
    return tuple(
        Setting(
            f"group.{kind}.{bound}.{name}",
            Kind.INT,
            default,
            f"The {'lowest' if bound == 'min' else 'highest'} {kind}.{name} that a group may set.",
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
    Setting("transaction.max.timeout.ms", Kind.INT, "900000",
            "The longest transaction timeout that a producer may ask for.", AtLeast(1)),
    Setting("transactional.id.expiration.ms", Kind.INT, "604800000",
            "A transactional id that has been silent for this long is forgotten.", AtLeast(1)),
    Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", Kind.INT, "10000",
            "How often to look for transactions that have timed out.", AtLeast(1)),
    Setting("transaction.remove.expired.transaction.cleanup.interval.ms", Kind.INT, "3600000",
            "How often to look for transactional ids to forget.", AtLeast(1)),
    Setting("transaction.partition.verification.enable", Kind.BOOLEAN, "true",
            "Refuse a transactional record on a partition that is not part of the transaction.",
            mode=Mode.CLUSTER_WIDE),
    # Kafka has it off: its clients cannot ask for it yet. Ours can, and the exactly-once sink does (decision 0016).
    Setting("transaction.two.phase.commit.enable", Kind.BOOLEAN, "true",
            "Let producers that ask for it leave transactions open without a timeout (KIP-939)."),
    # Far more than a sink has: one for each task that writes at the same time. In all: two such sinks and a half.
    Setting("barnabas.transactions.without.timeout.max", Kind.INT, "5000",
            "Transactions without a timeout that may be open on this broker's coordinator. More are refused with "
            "POLICY_VIOLATION until some are ended.", AtLeast(0), mode=Mode.CLUSTER_WIDE),
    Setting("barnabas.transactions.without.timeout.per.prefix.max", Kind.INT, "2000",
            "The same for transactional ids that begin alike: up to their first part, parted by - or ., that begins "
            "with a digit.", AtLeast(0), mode=Mode.CLUSTER_WIDE),
    # About 1 KB each.
    Setting("barnabas.transactional.ids.max", Kind.INT, "50000",
            "Transactional ids that this broker's coordinator keeps. The one that has been silent longest makes room; "
            "while all are at work, new ones are refused with POLICY_VIOLATION.",
            AtLeast(1), mode=Mode.CLUSTER_WIDE),
    Setting("transaction.state.log.num.partitions", Kind.INT, "50",
            "Partitions of __transaction_state, when it is created.", AtLeast(1)),
    Setting("transaction.state.log.replication.factor", Kind.SHORT, "3",
            "Replicas of __transaction_state, when it is created; as many as there are brokers if those are "
            "fewer.", AtLeast(1)),
    Setting("transaction.state.log.min.isr", Kind.INT, "2",
            "min.insync.replicas of __transaction_state.", AtLeast(1)),
    # As offsets.topic.segment.bytes.
    Setting("transaction.state.log.segment.bytes", Kind.INT, "8388608",
            "Segment size of __transaction_state.", AtLeast(1)),
)  # fmt: skip

SHARE_COORDINATOR_SETTINGS: tuple[Setting, ...] = (
    Setting("errors.deadletterqueue.topic.name.prefix", Kind.STRING, "dlq.",
            "What the names of dead-letter topics begin with, so that nobody can have records written to "
            "others by way of a share group."),
    Setting("errors.deadletterqueue.auto.create.topics.enable", Kind.BOOLEAN, "false",
            "Create the dead-letter topic of a share group when it is needed."),
    Setting("share.coordinator.state.topic.num.partitions", Kind.INT, "50",
            "Partitions of __share_group_state, when it is created.", AtLeast(1)),
    Setting("share.coordinator.state.topic.replication.factor", Kind.SHORT, "3",
            "Replicas of __share_group_state, when it is created; as many as there are brokers if those are "
            "fewer.", AtLeast(1)),
    Setting("share.coordinator.state.topic.min.isr", Kind.SHORT, "2",
            "min.insync.replicas of __share_group_state.", AtLeast(1)),
    Setting("share.coordinator.state.topic.segment.bytes", Kind.INT, "104857600",
            "Segment size of __share_group_state.", AtLeast(1)),
    Setting("share.coordinator.write.timeout.ms", Kind.INT, "5000",
            "How long a write of share state may wait for its replicas.", AtLeast(1)),
    Setting("share.coordinator.snapshot.update.records.per.snapshot", Kind.INT, "500",
            "Changes of a share partition's state after which its whole state is written.", Between(0, 500)),
    Setting("share.coordinator.state.topic.prune.interval.ms", Kind.INT, "300000",
            "How often to cut off what no share partition's state needs any more.", AtLeast(1),
            internal=True),
)  # fmt: skip

TELEMETRY_SETTINGS: tuple[Setting, ...] = (
    Setting("telemetry.max.bytes", Kind.INT, "1048576",
            "The largest metrics that a client may push at once, compressed or not.", AtLeast(1)),
    Setting("barnabas.telemetry.max.decompressed.bytes", Kind.INT, "33554432",
            "Bytes that the metrics of one push may decompress to.", AtLeast(1)),
    Setting("barnabas.telemetry.max.points", Kind.INT, "100000",
            "Data points of one push; a Java consumer sends 90 and seven for each of its partitions.", AtLeast(1)),
    Setting("barnabas.telemetry.cpu.percent", Kind.DOUBLE, "20",
            "CPU time for pushed metrics, in percent of one core, averaged over a minute. Principals share it "
            "equally; so do addresses of clients that do not authenticate.", AtLeast(0)),
    Setting("barnabas.telemetry.max.clients", Kind.INT, "16384",
            "Clients whose pushed metrics are kept; the one that was silent longest makes room.", AtLeast(1)),
    Setting("barnabas.telemetry.max.series", Kind.INT, "10000",
            "Series of all clients together that are kept and shown at /metrics; more are dropped.", AtLeast(1)),
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
    Setting("interval.ms", Kind.INT, "300000", "How often clients push metrics.", Between(100, 3600000)),
    Setting("match", Kind.LIST, "", "Which clients push: selector=pattern, separated by commas."),
    Setting("metrics", Kind.LIST, "", "Prefixes of the metrics to push; * for all."),
)  # fmt: skip
