"""Request handlers, one module or package per family of messages: a handler takes the broker, the request and
its message, and returns the response. `table` has HANDLERS, which is also the ApiVersions response;
`authorization`, `quotas` and `slicing` add authorization, quotas and chunking to its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.handlers.forwarding import ForwardingNeeds as ForwardingNeeds
    from barnabas.handlers.forwarding import create_topics as create_topics
    from barnabas.handlers.forwarding import to_controller as to_controller
    from barnabas.handlers.needs import IsMember as IsMember
    from barnabas.handlers.replication import LOST_DIR as LOST_DIR
    from barnabas.handlers.table import HANDLERS as HANDLERS
else:
    __getattr__ = lazy_exports(__name__)
