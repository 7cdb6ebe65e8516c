"""The broker's settings of replication. One node reads few of them; a cluster reads all."""

from __future__ import annotations

from barnabas.config.checks import AtLeast, OneOf
from barnabas.config.setting import MAX_LONG, Kind, Mode, Setting

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
