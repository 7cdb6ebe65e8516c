"""Agents that ship files, socket messages and host metrics into topics, with exactly-once delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.ingest.agent import Agent as Agent
    from barnabas.services.ingest.agent import IngestError as IngestError
    from barnabas.services.ingest.agent import IngestSource as IngestSource
    from barnabas.services.ingest.metrics import declare_agent_metrics as declare_agent_metrics
    from barnabas.services.ingest.metrics import status_of as status_of
else:
    __getattr__ = lazy_exports(__name__)
