"""The web console: pages, a JSON API behind each of them, and metrics, for Barnabas and for Apache Kafka.

A page is one function, `async (context, query) -> Struct`; a template shows the Struct, `/api/v1` answers with it as
JSON. Pages read snapshots that a sampler refreshes, so none of them waits for a large cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.console.access.model import LoginKind as LoginKind
    from barnabas.services.console.server import ConsoleServer as ConsoleServer
    from barnabas.services.console.settings import DEFAULT_LISTEN as DEFAULT_LISTEN
    from barnabas.services.console.settings import ClusterSettings as ClusterSettings
    from barnabas.services.console.settings import ConsoleSettings as ConsoleSettings
    from barnabas.services.console.users import needed_acls as needed_acls
else:
    __getattr__ = lazy_exports(__name__)
