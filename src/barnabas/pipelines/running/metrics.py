"""Prometheus metrics of a running pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from barnabas.metrics import Metric, Registry, Sample
from barnabas.pipelines.running.progress import FlowProgress

Read = Callable[[], Iterable[FlowProgress]]

_FLOW = ("pipeline", "flow")
_FLOW_METRICS: tuple[tuple[Metric, Callable[[FlowProgress], float | None]], ...] = (
    (
        Metric("counter", "barnabas_pipeline_rows_total", "Rows read since the pipeline was started.", _FLOW),
        lambda flow: flow.rows,
    ),
    (
        Metric("gauge", "barnabas_pipeline_input_rows_per_second", "Rows that arrive.", _FLOW),
        lambda flow: flow.input_rate,
    ),
    (
        Metric(
            "gauge", "barnabas_pipeline_processed_rows_per_second", "Rows that a micro-batch can do.", _FLOW
        ),
        lambda flow: flow.processed_rate,
    ),
    (
        Metric(
            "gauge", "barnabas_pipeline_lag_records", "Records in the topics that were not read yet.", _FLOW
        ),
        lambda flow: flow.lag,
    ),
    (
        Metric("gauge", "barnabas_pipeline_batch_seconds", "How long the last micro-batch took.", _FLOW),
        lambda flow: flow.batch_seconds,
    ),
    (
        Metric(
            "gauge", "barnabas_pipeline_state_rows", "Rows in the state of windows, joins and so on.", _FLOW
        ),
        lambda flow: flow.state_rows,
    ),
    (
        Metric("gauge", "barnabas_pipeline_state_bytes", "Memory of that state.", _FLOW),
        lambda flow: flow.state_bytes,
    ),
    (
        Metric(
            "counter",
            "barnabas_pipeline_late_rows_total",
            "Rows left out because their window was closed, counted as Spark does: by window and key in each task.",
            _FLOW,
        ),
        lambda flow: flow.late,
    ),
)
_BROKEN = Metric(
    "counter", "barnabas_pipeline_broken_rows_total", "Rows that broke a quality rule.", (*_FLOW, "rule")
)


def pipeline_registry(pipeline: str, read: Read) -> Registry:
    return pipelines_registry({pipeline: read})


def pipelines_registry(pipelines: Mapping[str, Read]) -> Registry:
    """Registry for several pipelines in one process."""
    registry = Registry()
    for metric, value in _FLOW_METRICS:
        registry.computed(metric, _samples(pipelines, value))
    registry.computed(_BROKEN, _broken_samples(pipelines))
    return registry


def _samples(
    pipelines: Mapping[str, Read], value: Callable[[FlowProgress], float | None]
) -> Callable[[], list[Sample]]:
    def samples() -> list[Sample]:
        numbers = (
            (pipeline, flow.name, value(flow)) for pipeline, read in pipelines.items() for flow in read()
        )
        return [
            Sample("", (("pipeline", pipeline), ("flow", name)), number)
            for pipeline, name, number in numbers
            if number is not None
        ]

    return samples


def _broken_samples(pipelines: Mapping[str, Read]) -> Callable[[], list[Sample]]:
    def samples() -> list[Sample]:
        return [
            Sample("", (("pipeline", pipeline), ("flow", flow.name), ("rule", rule)), number)
            for pipeline, read in pipelines.items()
            for flow in read()
            for rule, number in sorted(flow.broken.items())
        ]

    return samples
