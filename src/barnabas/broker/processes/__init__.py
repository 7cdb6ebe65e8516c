"""Several broker processes on one node, under a supervisor: it forks them, keeps their ports, and runs their hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.broker.processes.ports import NodeConfig as NodeConfig
    from barnabas.broker.processes.ports import process_count as process_count
    from barnabas.broker.processes.process import NodeService as NodeService
    from barnabas.broker.processes.supervisor import Supervisor as Supervisor
else:
    __getattr__ = lazy_exports(__name__)
