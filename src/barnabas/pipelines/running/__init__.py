"""Runs pipelines: definitions become Structured Streaming queries that are monitored and restarted with their state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.pipelines.running.backfill import Backfill as Backfill
    from barnabas.pipelines.running.broker_checks import make_topics as make_topics
    from barnabas.pipelines.running.broker_checks import require_broker as require_broker
    from barnabas.pipelines.running.metrics import pipeline_registry as pipeline_registry
    from barnabas.pipelines.running.metrics import pipelines_registry as pipelines_registry
    from barnabas.pipelines.running.otlp import exported as exported
    from barnabas.pipelines.running.otlp import otlp_settings as otlp_settings
    from barnabas.pipelines.running.plan import PipelinePlan as PipelinePlan
    from barnabas.pipelines.running.plan import Planned as Planned
    from barnabas.pipelines.running.plan import ToBatches as ToBatches
    from barnabas.pipelines.running.plan import location_of as location_of
    from barnabas.pipelines.running.plan import storage_of as storage_of
    from barnabas.pipelines.running.progress import OBSERVATION as OBSERVATION
    from barnabas.pipelines.running.progress import FlowProgress as FlowProgress
    from barnabas.pipelines.running.runner import POLL_SECONDS as POLL_SECONDS
    from barnabas.pipelines.running.runner import Runner as Runner
    from barnabas.pipelines.running.selection import FlowSelection as FlowSelection
    from barnabas.pipelines.running.sessions import FlowSession as FlowSession
    from barnabas.pipelines.running.sessions import connect_server as connect_server
    from barnabas.pipelines.running.sessions import pipeline_session as pipeline_session
    from barnabas.pipelines.running.sessions import run_with_spark as run_with_spark
    from barnabas.pipelines.running.state_lock import StateLock as StateLock
    from barnabas.pipelines.running.status import PipelineStatus as PipelineStatus
    from barnabas.pipelines.running.status import StatusFile as StatusFile
    from barnabas.pipelines.running.status import as_reported as as_reported
    from barnabas.pipelines.running.status import new_status as new_status
    from barnabas.pipelines.running.status_reports import PipelineReport as PipelineReport
    from barnabas.pipelines.running.status_reports import Reports as Reports
else:
    __getattr__ = lazy_exports(__name__)
