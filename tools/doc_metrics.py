"""The page of metrics: the catalogue as a table."""

from barnabas.metrics.catalogue import CATALOGUE
from barnabas.metrics.declarations import Metric
from tools.doc_marks import GENERATED


def metrics_page() -> str:
    return "\n".join(
        [
            GENERATED,
            "# Metrics\n",
            (
                "`barnabas.metrics.listen=HOST:PORT` serves `/metrics` (Prometheus text) and `/health` (JSON, with\n"
                "status 200 or 503) over HTTP. Names that begin with `kafka_` are those of the JMX exporter's usual\n"
                "rules and of kafka_exporter, so that stock dashboards work; what only Barnabas has begins with\n"
                "`barnabas_`.\n"
            ),
            "| metric | type | labels | meaning |",
            "|---|---|---|---|",
            *map(_row, sorted(CATALOGUE, key=lambda metric: metric.name)),
            "",
        ]
    )


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "none"
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"
