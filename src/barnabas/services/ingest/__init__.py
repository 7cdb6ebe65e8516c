"""Agents that ship files, socket messages and host metrics into topics, with exactly-once delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.ingest.agent import Agent as Agent
    from barnabas.services.ingest.agent import IngestError as IngestError
    from barnabas.services.ingest.agent import IngestSource as IngestSource
    from barnabas.services.ingest.agent_file import describe_agent as describe_agent
    from barnabas.services.ingest.agent_file import read_agent as read_agent
    from barnabas.services.ingest.metrics import declare_agent_metrics as declare_agent_metrics
    from barnabas.services.ingest.metrics import status_of as status_of
    from barnabas.services.ingest.statsd import DEFAULT_STATSD_LISTEN as DEFAULT_STATSD_LISTEN
    from barnabas.services.ingest.statsd import StatsdSettings as StatsdSettings
    from barnabas.services.ingest.statsd import StatsdSource as StatsdSource
else:
    __getattr__ = lazy_exports(__name__)
