"""Catalogue of alarms: source of the console page, `monitoring/rules.yml` and the dashboards in `monitoring/grafana`.

Expressions use metrics that `barnabas console` exports for any cluster; some use metrics of Barnabas
brokers. Expressions keep the labels `job` and `instance`.
"""

from __future__ import annotations

from barnabas.services.console.alarms import conditions
from barnabas.services.console.alarms.conditions import Alarm, Area, Severity
from barnabas.services.console.exporter.watch import STALE_SECONDS

_PARTITION = "on (job, instance, topic, partition)"
_GROUP = "on (job, instance, consumergroup)"
_GROUP_TOPIC = "on (job, instance, consumergroup, topic)"

ALARMS = (
    Alarm(
        "FiguresAreOld",
        Area.CLUSTER,
        Severity.CRITICAL,
        "The cluster has not answered for a minute; all figures of the console are out of date.",
        "Check that brokers run and are reachable: `barnabas cluster status`. The console's log contains the errors.",
        f"barnabas_console_snapshot_age_seconds > {STALE_SECONDS:.0f}",
        0,
        conditions.old_figures,
    ),
    Alarm(
        "BrokerMissing",
        Area.CLUSTER,
        Severity.CRITICAL,
        "A broker is not in the cluster, or does not answer.",
        "Check the end of its log and restart it. If it does not come back, move its replicas: `barnabas cluster "
        "drain`.",
        "kafka_brokers < max_over_time(kafka_brokers[1d])",
        60,
        conditions.missing_brokers,
    ),
    Alarm(
        "NoController",
        Area.CLUSTER,
        Severity.CRITICAL,
        "No broker is the controller: topics cannot be changed, and no leader can be elected.",
        "Check that ZooKeeper or the controller quorum has a majority.",
        "sum by (job) (kafka_controller_kafkacontroller_activecontrollercount) == 0",
        60,
        conditions.missing_controller,
    ),
    Alarm(
        "LogDirFailed",
        Area.CLUSTER,
        Severity.CRITICAL,
        "A disk of a broker failed; its replicas are offline.",
        "Replace the disk, or move the replicas to another one, and restart the broker.",
        "barnabas_log_dir_failed > 0",
        0,
        conditions.failed_log_dirs,
    ),
    Alarm(
        "DiskNearlyFull",
        Area.CLUSTER,
        Severity.WARNING,
        "Less than a tenth of a broker's disk is free.",
        "Shorten retention.ms or retention.bytes of the largest topics, move replicas, or add disks.",
        f"barnabas_log_dir_usable_bytes / barnabas_log_dir_total_bytes < {conditions.DISK_SHARE}",
        300,
        conditions.full_disks,
    ),
    Alarm(
        "PartitionOffline",
        Area.TOPICS,
        Severity.CRITICAL,
        "A partition has no leader: clients can neither write to it nor read from it.",
        "Start one of the brokers that were in sync last. If none of them comes back, an unclean election brings the "
        "partition back without the newest records.",
        f"kafka_topic_partition_replicas unless {_PARTITION} kafka_topic_partition_leader",
        30,
        conditions.leaderless_partitions,
    ),
    Alarm(
        "LastReplica",
        Area.TOPICS,
        Severity.CRITICAL,
        "Only one replica of a partition is in sync: the next failure takes it offline.",
        "Restart the brokers of the other replicas, or move the replicas to running brokers.",
        f"kafka_topic_partition_in_sync_replica == 1 and {_PARTITION} kafka_topic_partition_replicas > 1",
        300,
        conditions.last_replicas,
    ),
    Alarm(
        "UnderReplicated",
        Area.TOPICS,
        Severity.WARNING,
        "A replica of a partition is not in sync.",
        "Check that its broker runs, and its disk and network load. After a restart it catches up automatically.",
        "kafka_topic_partition_under_replicated_partition > 0",
        300,
        conditions.under_replicated_partitions,
    ),
    Alarm(
        "UnderMinIsr",
        Area.TOPICS,
        Severity.CRITICAL,
        "Fewer replicas are in sync than min.insync.replicas: writes with acks=all are rejected.",
        "Restart the brokers of the other replicas. Until then, a lower min.insync.replicas allows writes.",
        "kafka_cluster_partition_underminisr > 0",
        60,
        conditions.under_min_isr,
    ),
    Alarm(
        "LeaderNotPreferred",
        Area.TOPICS,
        Severity.INFO,
        "The leader of some partitions is not the preferred replica, so brokers may be loaded unevenly.",
        "Run `barnabas cluster rebalance`, or set auto.leader.rebalance.enable=true.",
        "kafka_topic_partition_leader_is_preferred == 0",
        1800,
        conditions.moved_leaders,
    ),
    Alarm(
        "GroupLate",
        Area.GROUPS,
        Severity.WARNING,
        "A group is more than five minutes behind.",
        "Check that all members run and what they wait for. More members help up to one per partition.",
        f"max by (job, instance, consumergroup) (kafka_consumergroup_lag_seconds) > {conditions.LAG_SECONDS}",
        120,
        conditions.late_groups,
    ),
    Alarm(
        "GroupStuck",
        Area.GROUPS,
        Severity.WARNING,
        "A group has members and lag, and has committed nothing for ten minutes.",
        "The group may fail on a record: check its log and the record at its committed offset. The page of the "
        "group's offsets can skip the record.",
        f"kafka_consumergroup_lag_sum > 0 and {_GROUP_TOPIC} delta(kafka_consumergroup_current_offset_sum[10m]) == 0 "
        f"and {_GROUP} kafka_consumergroup_members > 0",
        600,
        conditions.stuck_groups,
    ),
    Alarm(
        "GroupAbandoned",
        Area.GROUPS,
        Severity.INFO,
        "A group has lag and no members.",
        "Start its consumers, or delete the group if it is no longer needed: `barnabas groups delete`.",
        f"kafka_consumergroup_lag_sum > 0 and {_GROUP} kafka_consumergroup_members == 0",
        900,
        conditions.abandoned_groups,
    ),
    Alarm(
        "RecordsLost",
        Area.GROUPS,
        Severity.CRITICAL,
        "Records were deleted before a group had read them.",
        "Raise retention.ms of the topic until the group has caught up, and find out why it is late.",
        f"kafka_consumergroup_current_offset < {_PARTITION} group_left () kafka_topic_partition_oldest_offset and "
        f"{_GROUP} kafka_consumergroup_members > 0",
        0,
        conditions.lost_records,
    ),
    Alarm(
        "MoverFailed",
        Area.PIPELINES,
        Severity.CRITICAL,
        "A pipeline, connector, mirror or agent has failed, or has not reported in time.",
        "Its page, or `barnabas pipeline status`, `connect status`, `mirror status` and `ingest status`, say why.",
        'barnabas_status_state{state=~"failed|lost"} > 0',
        30,
        conditions.troubled_movers,
    ),
    Alarm(
        "MoverAlarm",
        Area.PIPELINES,
        Severity.WARNING,
        "A pipeline, connector, mirror or agent reports an alarm.",
        "Its page shows the alarm with details.",
        "barnabas_status_alarms > 0",
        0,
        conditions.alarms_of_movers,
    ),
    Alarm(
        "MirrorFailed",
        Area.PIPELINES,
        Severity.CRITICAL,
        "Partitions of mirror topics have failed and are not mirrored until they are resumed.",
        "`barnabas mirror status` shows the reason.",
        "barnabas_mirror_failed_partitions > 0",
        0,
        conditions.failed_mirrors,
    ),
    Alarm(
        "CertificateExpires",
        Area.CLUSTER,
        Severity.WARNING,
        "The certificate of a listener expires in less than two weeks.",
        "Put a new one into its key store; the broker reloads it without a restart.",
        "barnabas_tls_certificate_expiry_seconds - time() < 14 * 86400",
        0,
        conditions.expiring_certificates,
    ),
    Alarm(
        "BrokerBusy",
        Area.CLUSTER,
        Severity.WARNING,
        "The loop of a broker has been busy for more than nine tenths of the time.",
        "Move leaders to other brokers, or add brokers; `barnabas_request_seconds` says which requests take the time.",
        "kafka_network_socketserver_networkprocessoravgidle_percent < 0.1",
        300,
        conditions.busy_brokers,
    ),
    Alarm(
        "AuditEventsLost",
        Area.CLUSTER,
        Severity.WARNING,
        "Events are missing in the audit log.",
        "The broker's log says why they could not be written.",
        "increase(barnabas_audit_events_lost_total[10m]) > 0",
        0,
        conditions.lost_audit_events,
    ),
)

BY_NAME = {alarm.name: alarm for alarm in ALARMS}
