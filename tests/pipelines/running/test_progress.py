"""Parsing of Spark's progress reports."""

import json
from typing import Any

from barnabas.common.types import TopicPartition
from barnabas.pipelines.running.metrics import pipeline_registry
from barnabas.pipelines.running.progress import FlowProgress, lag_of, offsets_reached


def report(batch: int, rows: int, **more: Any) -> dict[str, Any]:
    return {
        "batchId": batch,
        "numInputRows": rows,
        "inputRowsPerSecond": rows * 2.0,
        "processedRowsPerSecond": rows * 3.0,
        "durationMs": {"triggerExecution": 250},
        "stateOperators": [{"numRowsTotal": 7, "memoryUsedBytes": 100}],
        **more,
    }


def test_rows_add_up_over_batches() -> None:
    flow = FlowProgress("counts")
    for each in (report(0, 10), report(1, 5)):
        flow.take(each)
    assert (flow.rows, flow.batch, flow.input_rate, flow.batch_seconds) == (15, 1, 10.0, 0.25)
    assert (flow.state_rows, flow.state_bytes) == (7, 100)


def test_a_report_that_was_seen_counts_once() -> None:
    flow = FlowProgress("counts")
    for each in (report(3, 10), report(3, 10), report(2, 99)):
        flow.take(each)
    assert flow.rows == 10


def test_an_idle_batch_keeps_the_last_rate() -> None:
    flow = FlowProgress("counts")
    flow.take(report(0, 10))
    flow.take(report(1, 0))
    assert (flow.input_rate, flow.rows, flow.batch) == (20.0, 10, 1)


def test_broken_rules_add_up_by_name() -> None:
    flow = FlowProgress("counts")
    observed = {"quality:events": {"rows": 10, "has a key": 2}, "other": {"x": 1}}
    flow.take(report(0, 10, observedMetrics=observed))
    flow.take(report(1, 10, observedMetrics=observed))
    assert flow.broken == {"events: has a key": 4}


def test_rows_that_came_too_late_add_up_over_all_state_of_a_flow() -> None:
    flow = FlowProgress("counts")
    state = [{"numRowsTotal": 7, "numRowsDroppedByWatermark": dropped} for dropped in (2, 1)]
    for each in (report(0, 10, stateOperators=state), report(1, 0, stateOperators=state), report(2, 5)):
        flow.take(each)
        flow.take(each)
    assert flow.late == 6


def test_lag_is_the_difference_of_committed_and_end_offsets() -> None:
    offsets = {"orders": {"0": 5, "1": 7}}
    for shape in (offsets, json.dumps(offsets)):
        reached = offsets_reached({"sources": [{"endOffset": shape}]})
        assert reached == {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 7}
    assert lag_of(reached, {TopicPartition("orders", 0): 9, TopicPartition("orders", 1): 7}) == 4


def test_sources_that_are_no_topics_have_no_lag() -> None:
    assert (
        offsets_reached(
            {"sources": [{"endOffset": 12}, {"endOffset": '{"logOffset":3}'}, {"endOffset": None}]}
        )
        == {}
    )


def test_every_number_is_served_as_a_metric() -> None:
    flow = FlowProgress("counts", rows=15, lag=4, late=3, broken={"events: has a key": 2})
    values = pipeline_registry("shop", lambda: [flow]).snapshot()
    assert values["barnabas_pipeline_rows_total{pipeline=shop,flow=counts}"] == 15
    assert values["barnabas_pipeline_lag_records{pipeline=shop,flow=counts}"] == 4
    assert values["barnabas_pipeline_late_rows_total{pipeline=shop,flow=counts}"] == 3
    assert (
        values["barnabas_pipeline_broken_rows_total{pipeline=shop,flow=counts,rule=events: has a key}"] == 2
    )


def test_a_watermark_before_the_first_event_is_none() -> None:
    progress = FlowProgress("orders")
    report = {"batchId": 0, "numInputRows": 0, "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}}
    progress.take(report)
    assert progress.watermark is None
    progress.take({**report, "batchId": 1, "eventTime": {"watermark": "2026-11-17T08:30:00.000Z"}})
    progress.take({**report, "batchId": 2, "eventTime": {}})
    assert progress.watermark == "2026-11-17T08:30:00.000Z"
