"""Rendering of a registry in the Prometheus text format 0.0.4."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from barnabas.metrics.registry import Metric, Registry, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(registry: Registry) -> str:
    return "".join(render_lines(registry))


def render_lines(registry: Registry) -> Iterator[str]:
    """Yield all metrics line by line, for callers that yield to the loop in between."""
    for family in registry.families():
        yield header(family.metric)
        for sample in family.samples():
            yield sample_line(family.metric.name, sample)


def header(metric: Metric) -> str:
    """HELP and TYPE lines of a metric."""
    return f"# HELP {metric.name} {_escape_help(metric.help)}\n# TYPE {metric.name} {metric.kind}\n"


def sample_line(name: str, sample: Sample, *labels: tuple[str, str]) -> str:
    """The line of a sample; `labels` are added to its own."""
    return f"{name}{sample.suffix}{label_text((*labels, *sample.labels))} {number_text(sample.value)}\n"


def label_text(labels: Iterable[tuple[str, str]]) -> str:
    inside = ",".join([f'{label}="{_escape_label(text)}"' for label, text in labels])
    return f"{{{inside}}}" if inside else ""


def number_text(value: float) -> str:
    if isinstance(value, int) or (math.isfinite(value) and value == int(value)):
        return str(int(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def _escape_help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _escape_label(text: str) -> str:
    """Escape a label value: client ids are untrusted, and a quote or newline must not break the page."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
