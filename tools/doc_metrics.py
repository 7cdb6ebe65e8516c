"""docs/metrics.md: metrics and alarms, from their catalogues."""

from collections.abc import Iterable

from barnabas.broker.exporter_metrics import MAX_OFFSETS
from barnabas.metrics import exporter_catalogue
from barnabas.metrics.catalogue import CATALOGUE
from barnabas.metrics.registry import Metric
from barnabas.services.console.alarms.catalogue import ALARMS
from barnabas.services.console.alarms.conditions import Alarm
from barnabas.services.console.exporter import lines as console_catalogue
from tools.doc_marks import GENERATED

BROKERS = """\
`barnabas.metrics.listen=HOST:PORT` serves `/metrics` (Prometheus text) and `/health` (JSON, with status 200 or 503)
over HTTP. Names that begin with `kafka_` are those of the JMX exporter's common rules and of kafka_exporter, so that
existing dashboards work; metrics that only Barnabas has begin with `barnabas_`. `monitoring/rules.yml` contains rules
for Prometheus, `monitoring/grafana` dashboards.
"""
CLUSTER = f"""\
kafka_exporter's metrics. `barnabas console --exporter-only`, and `/metrics` of a console, serve them for Barnabas and
for Apache Kafka. A broker without ZooKeeper serves them too, except those that begin with `barnabas_` and the lag in
seconds; brokers of a cluster serve none of them, because dashboards would add them up (`barnabas.metrics.exporter`).
A partition without a commit has no sample, where kafka_exporter writes -1. Values older than a minute are omitted. A
single broker shows at most {MAX_OFFSETS:,} committed offsets by partition, and sums of all.
"""
RULES = """\
The console's page `/alarms`, `monitoring/rules.yml` and the dashboards use the same alarms. UnderMinIsr,
CertificateExpires, BrokerBusy and AuditEventsLost use metrics of Barnabas brokers; the console reads them from brokers
that serve them without TLS and password.
"""


def metrics_page() -> str:
    return "\n".join(
        [
            GENERATED,
            "# Metrics\n",
            BROKERS,
            "## Brokers\n",
            *_table(set(CATALOGUE) - set(exporter_catalogue.CATALOGUE)),
            "## The cluster as a whole\n",
            CLUSTER,
            *_table(console_catalogue.CATALOGUE),
            "## Alarms\n",
            RULES,
            "| alarm | severity | for | seen by | meaning | what to do |",
            "|---|---|---|---|---|---|",
            *map(_alarm, ALARMS),
            "",
        ]
    )


def _table(metrics: Iterable[Metric]) -> list[str]:
    head = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    return [*head, *map(_row, sorted(metrics, key=lambda metric: metric.name)), ""]


def _alarm(alarm: Alarm) -> str:
    seen = "console, Prometheus" if alarm.find is not None else "Prometheus"
    cells = (alarm.name, alarm.severity.value, f"{alarm.seconds} s", seen, alarm.sentence, alarm.action)
    return f"| {' | '.join(cells)} |"


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "none"
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"
