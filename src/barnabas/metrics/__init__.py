"""Metrics of the broker: `registry` has Registry, Counter, Gauge and Histogram; `text` renders a registry in
the Prometheus text format; the catalogue modules declare every metric with its name, labels and help text.
"""
