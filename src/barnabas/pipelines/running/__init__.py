"""Runs pipelines: definitions become Structured Streaming queries that are monitored and restarted with their state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.pipelines.running.broker_checks import require_broker
    from barnabas.pipelines.running.metrics import pipeline_registry, pipelines_registry
    from barnabas.pipelines.running.plan import PipelinePlan, Planned, ToBatches, location_of, storage_of
    from barnabas.pipelines.running.progress import OBSERVATION, FlowProgress
    from barnabas.pipelines.running.runner import LOOK_SECONDS, Runner
    from barnabas.pipelines.running.sessions import FlowSession, pipeline_session, run_with_spark
    from barnabas.pipelines.running.state_lock import StateLock
    from barnabas.pipelines.running.status import PipelineStatus, StatusFile, as_reported, new_status
    from barnabas.pipelines.running.status_reports import PipelineReport, Reports
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "broker_checks": "require_broker",
            "metrics": "pipeline_registry pipelines_registry",
            "plan": "PipelinePlan Planned ToBatches location_of storage_of",
            "progress": "FlowProgress OBSERVATION",
            "runner": "LOOK_SECONDS Runner",
            "sessions": "FlowSession pipeline_session run_with_spark",
            "state_lock": "StateLock",
            "status": "PipelineStatus StatusFile as_reported new_status",
            "status_reports": "PipelineReport Reports",
        },
    )

__all__ = [
    "LOOK_SECONDS",
    "OBSERVATION",
    "FlowProgress",
    "FlowSession",
    "PipelinePlan",
    "PipelineReport",
    "PipelineStatus",
    "Planned",
    "Reports",
    "Runner",
    "StateLock",
    "StatusFile",
    "ToBatches",
    "as_reported",
    "location_of",
    "new_status",
    "pipeline_registry",
    "pipeline_session",
    "pipelines_registry",
    "require_broker",
    "run_with_spark",
    "storage_of",
]
