"""The web console: pages, a JSON API behind each of them, and metrics, for Barnabas and for Apache Kafka.

A page is one function, `async (context, query) -> Struct`; a template shows the Struct, `/api/v1` answers with it as
JSON. Pages read snapshots that a sampler refreshes, so none of them waits for a large cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.console.server import ConsoleServer
    from barnabas.services.console.settings import DEFAULT_LISTEN, ClusterSettings, ConsoleSettings
    from barnabas.services.console.users import needed_acls
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "server": "ConsoleServer",
            "settings": "ClusterSettings ConsoleSettings DEFAULT_LISTEN",
            "users": "needed_acls",
        },
    )

__all__ = ["DEFAULT_LISTEN", "ClusterSettings", "ConsoleServer", "ConsoleSettings", "needed_acls"]
