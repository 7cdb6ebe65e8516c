"""Metrics of the broker: `registry` has Registry, Counter, Gauge and Histogram; `text` renders a registry in
the Prometheus text format; the catalogue modules declare every metric with its name, labels and help text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.metrics.network_catalogue import MONITORING_CUT_OFF
    from barnabas.metrics.process import declare_process_metrics, open_files, resident_memory
    from barnabas.metrics.registry import (
        Computed,
        Histogram,
        Metric,
        Registry,
        Sample,
        counter,
        gauge,
        metrics_among,
    )
    from barnabas.metrics.requests import QUANTILES, RequestMetrics
    from barnabas.metrics.text import CONTENT_TYPE, header, label_text, number_text, render_lines
    from barnabas.metrics.topics import TopicCounters, TopicMetrics
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "network_catalogue": "MONITORING_CUT_OFF",
            "process": "declare_process_metrics open_files resident_memory",
            "registry": "Computed Histogram Metric Registry Sample counter gauge metrics_among",
            "requests": "QUANTILES RequestMetrics",
            "text": "CONTENT_TYPE header label_text number_text render_lines",
            "topics": "TopicCounters TopicMetrics",
        },
    )

__all__ = [
    "CONTENT_TYPE",
    "MONITORING_CUT_OFF",
    "QUANTILES",
    "Computed",
    "Histogram",
    "Metric",
    "Registry",
    "RequestMetrics",
    "Sample",
    "TopicCounters",
    "TopicMetrics",
    "counter",
    "declare_process_metrics",
    "gauge",
    "header",
    "label_text",
    "metrics_among",
    "number_text",
    "open_files",
    "render_lines",
    "resident_memory",
]
