"""The page of metrics: the catalogue as a table."""

from collections.abc import Iterable

from barnabas.broker.exporter_metrics import MAX_OFFSETS
from barnabas.metrics import exporter_catalogue
from barnabas.metrics.catalogue import CATALOGUE
from barnabas.metrics.registry import Metric
from barnabas.services.console.alarms.alarm import Alarm
from barnabas.services.console.alarms.catalogue import ALARMS
from barnabas.services.console.exporter import lines as console_catalogue
from tools.doc_marks import GENERATED

BROKERS = """\
`barnabas.metrics.listen=HOST:PORT` serves `/metrics` (Prometheus text) and `/health` (JSON, with status 200 or 503)
over HTTP. Names that begin with `kafka_` are those of the JMX exporter's usual rules and of kafka_exporter, so that
stock dashboards work; what only Barnabas has begins with `barnabas_`. `monitoring/rules.yml` has rules for Prometheus,
`monitoring/grafana` boards.
"""
CLUSTER = f"""\
kafka_exporter's metrics. `barnabas console --exporter-only`, and `/metrics` of a console, serve them for Barnabas and
for Apache Kafka. A broker without ZooKeeper has them on its own page, but for those whose names begin with `barnabas_`,
and for the lag in seconds; brokers of a cluster have none of them, because boards add up what they find
(`barnabas.metrics.exporter`). A partition without a commit has no sample: kafka_exporter writes -1. Figures older than
a minute are left out. A broker that is alone shows at most {MAX_OFFSETS:,} committed offsets by partition, and sums of
all.
"""
RULES = """\
The page `/alarms` of the console, `monitoring/rules.yml` and the boards have the same. Those that only Prometheus sees
are of metrics that only Barnabas' own brokers have.
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
            "| alarm | severity | must hold | seen by | meaning | what to do |",
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
