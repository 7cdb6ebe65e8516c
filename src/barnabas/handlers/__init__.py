"""Request handlers, one module or package per family of messages: a handler takes the broker, the request and
its message, and returns the response. `table` has HANDLERS, which is also the ApiVersions response;
`authorization`, `quotas` and `slicing` add authorization, quotas and chunking to its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.handlers.forwarding import ForwardingNeeds, create_topics, to_controller
    from barnabas.handlers.needs import IsMember
    from barnabas.handlers.replication import LOST_DIR
    from barnabas.handlers.table import HANDLERS
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "forwarding": "ForwardingNeeds create_topics to_controller",
            "needs": "IsMember",
            "replication": "LOST_DIR",
            "table": "HANDLERS",
        },
    )

__all__ = ["HANDLERS", "LOST_DIR", "ForwardingNeeds", "IsMember", "create_topics", "to_controller"]
