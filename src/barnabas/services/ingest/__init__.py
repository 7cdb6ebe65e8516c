"""Agents that ship files, socket messages and host metrics into topics, with exactly-once delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.ingest.agent import Agent, IngestError, IngestSource
    from barnabas.services.ingest.metrics import declare_agent_metrics, status_of
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "agent": "Agent IngestError IngestSource",
            "metrics": "declare_agent_metrics status_of",
        },
    )

__all__ = ["Agent", "IngestError", "IngestSource", "declare_agent_metrics", "status_of"]
