"""`agent.yml`: configuration file of an agent and its sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.ingest.agent_file.reader import describe as describe
    from barnabas.services.ingest.agent_file.reader import read_agent as read_agent
else:
    __getattr__ = lazy_exports(__name__)
