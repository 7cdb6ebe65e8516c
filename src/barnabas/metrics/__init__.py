"""Metrics of the broker: `registry` has Registry, Counter, Gauge and Histogram; `text` renders a registry in
the Prometheus text format; the catalogue modules declare every metric with its name, labels and help text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.metrics.network_catalogue import MONITORING_CUT_OFF as MONITORING_CUT_OFF
    from barnabas.metrics.otlp import encode_metrics as encode_metrics
    from barnabas.metrics.process import declare_process_metrics as declare_process_metrics
    from barnabas.metrics.process import open_files as open_files
    from barnabas.metrics.process import resident_memory as resident_memory
    from barnabas.metrics.registry import Computed as Computed
    from barnabas.metrics.registry import Histogram as Histogram
    from barnabas.metrics.registry import Metric as Metric
    from barnabas.metrics.registry import Registry as Registry
    from barnabas.metrics.registry import Sample as Sample
    from barnabas.metrics.registry import counter as counter
    from barnabas.metrics.registry import gauge as gauge
    from barnabas.metrics.registry import metrics_among as metrics_among
    from barnabas.metrics.requests import QUANTILES as QUANTILES
    from barnabas.metrics.requests import RequestMetrics as RequestMetrics
    from barnabas.metrics.text import CONTENT_TYPE as CONTENT_TYPE
    from barnabas.metrics.text import header as header
    from barnabas.metrics.text import label_text as label_text
    from barnabas.metrics.text import number_text as number_text
    from barnabas.metrics.text import render_lines as render_lines
    from barnabas.metrics.text import sample_line as sample_line
    from barnabas.metrics.topics import TopicCounters as TopicCounters
    from barnabas.metrics.topics import TopicMetrics as TopicMetrics
else:
    __getattr__ = lazy_exports(__name__)
