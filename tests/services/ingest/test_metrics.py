"""Metrics of an agent."""

from pathlib import Path

from barnabas.services.ingest.metrics import METRICS

DOCS = Path(__file__).parents[3] / "docs" / "ingest.md"


def test_every_metric_is_in_the_documentation() -> None:
    text = DOCS.read_text()
    assert [metric.name for metric in METRICS if f"`{metric.name}`" not in text] == []
