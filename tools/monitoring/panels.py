"""Dashboard panels other than alarms. `boards` adds the labels `job` and `instance`."""

from typing import NamedTuple

from barnabas.services.console.alarms.conditions import Area


class Query(NamedTuple):
    expression: str
    legend: str = ""


class Panel(NamedTuple):
    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    """Grafana's unit name: short, bytes, Bps, s, percentunit."""


class Variable(NamedTuple):
    name: str
    metric: str
    """Metric that carries the variable as a label."""


def panel(title: str, expression: str, legend: str = "", unit: str = "short") -> Panel:
    return Panel(title, (Query(expression, legend),), unit)


_TOPIC = 'topic=~"$topic"'
_GROUP = 'consumergroup=~"$consumergroup"'

VARIABLES = {
    Area.CLUSTER: (),
    Area.TOPICS: (Variable("topic", "kafka_topic_partitions"),),
    Area.GROUPS: (Variable("consumergroup", "kafka_consumergroup_members"),),
    Area.PIPELINES: (),
}

PANELS = {
    Area.CLUSTER: (
        panel("Brokers", "max(kafka_brokers)", "in the cluster"),
        panel(
            "Records written",
            'sum by (instance) (rate(kafka_server_brokertopicmetrics_messagesin_total{topic=""}[5m]))',
            "{{instance}}",
            "wps",
        ),
        Panel(
            "Bytes in and out",
            (
                Query('sum(rate(kafka_server_brokertopicmetrics_bytesin_total{topic=""}[5m]))', "in"),
                Query('sum(rate(kafka_server_brokertopicmetrics_bytesout_total{topic=""}[5m]))', "out"),
            ),
            "Bps",
        ),
        panel(
            "Time of requests, 99 %",
            "histogram_quantile(0.99, sum by (le, request) (rate(barnabas_request_seconds_bucket[5m])))",
            "{{request}}",
            "s",
        ),
        panel(
            "How busy loops are",
            "1 - kafka_network_socketserver_networkprocessoravgidle_percent",
            "{{instance}}",
            "percentunit",
        ),
        panel("Longest delay of loops in a minute", "barnabas_loop_lag_max_seconds", "{{instance}}", "s"),
        panel(
            "Connections",
            "sum by (instance, listener) (kafka_server_socketservermetrics_connection_count)",
            "{{instance}} {{listener}}",
        ),
        panel(
            "Free of disks",
            "barnabas_log_dir_usable_bytes / barnabas_log_dir_total_bytes",
            "broker {{broker}} {{path}}",
            "percentunit",
        ),
        panel("Memory", "process_resident_memory_bytes", "{{instance}}", "bytes"),
        panel("CPU", "rate(process_cpu_seconds_total[5m])", "{{instance}}"),
    ),
    Area.TOPICS: (
        panel(
            "Records written",
            f"sum by (topic) (rate(kafka_topic_partition_current_offset{{{_TOPIC}}}[5m]))",
            "{{topic}}",
            "wps",
        ),
        panel(
            "Offsets kept",
            f"sum by (topic) (kafka_topic_partition_current_offset{{{_TOPIC}}} - "
            f"kafka_topic_partition_oldest_offset{{{_TOPIC}}})",
            "{{topic}}",
        ),
        panel(
            "Bytes of all replicas",
            f"sum by (topic) (kafka_log_log_size{{{_TOPIC}}})",
            "{{topic}}",
            "bytes",
        ),
        panel("Partitions", f"kafka_topic_partitions{{{_TOPIC}}}", "{{topic}}"),
        panel(
            "Partitions by leader",
            f'count_values("broker", kafka_topic_partition_leader{{{_TOPIC}}})',
            "broker {{broker}}",
        ),
        panel(
            "Replicas that are not in sync",
            f"sum by (topic) (kafka_topic_partition_replicas{{{_TOPIC}}} - "
            f"kafka_topic_partition_in_sync_replica{{{_TOPIC}}})",
            "{{topic}}",
        ),
    ),
    Area.GROUPS: (
        panel(
            "Lag in seconds",
            f"max by (consumergroup, topic) (kafka_consumergroup_lag_seconds{{{_GROUP}}})",
            "{{consumergroup}} {{topic}}",
            "s",
        ),
        panel(
            "Lag in records",
            f"sum by (consumergroup, topic) (kafka_consumergroup_lag_sum{{{_GROUP}}})",
            "{{consumergroup}} {{topic}}",
        ),
        panel(
            "Records read",
            f"sum by (consumergroup, topic) (rate(kafka_consumergroup_current_offset_sum{{{_GROUP}}}[5m]))",
            "{{consumergroup}} {{topic}}",
            "rps",
        ),
        panel("Members", f"kafka_consumergroup_members{{{_GROUP}}}", "{{consumergroup}}"),
    ),
    Area.PIPELINES: (
        panel("States", "barnabas_status_state", "{{kind}} {{name}}: {{state}}"),
        panel("Not done yet", "barnabas_status_lag", "{{kind}} {{name}} {{part}}"),
        panel(
            "Rows",
            "sum by (pipeline, flow) (rate(barnabas_pipeline_rows_total[5m]))",
            "{{pipeline}} {{flow}}",
            "rps",
        ),
        panel("Lag of flows", "barnabas_pipeline_lag_records", "{{pipeline}} {{flow}}"),
        panel("Time of a batch", "barnabas_pipeline_batch_seconds", "{{pipeline}} {{flow}}", "s"),
        panel("Memory of state", "barnabas_pipeline_state_bytes", "{{pipeline}} {{flow}}", "bytes"),
        panel(
            "Rows that broke a rule",
            "sum by (pipeline, flow, rule) (rate(barnabas_pipeline_broken_rows_total[5m]))",
            "{{pipeline}} {{flow}} {{rule}}",
            "rps",
        ),
        panel(
            "Late rows",
            "sum by (pipeline, flow) (rate(barnabas_pipeline_late_rows_total[5m]))",
            "{{pipeline}} {{flow}}",
            "rps",
        ),
        panel(
            "Records of agents", "rate(barnabas_ingest_records_total[5m])", "{{instance}} {{source}}", "wps"
        ),
        panel("Lag of mirrors", "barnabas_mirror_lag_seconds", "{{link}} {{topic}}", "s"),
    ),
}
