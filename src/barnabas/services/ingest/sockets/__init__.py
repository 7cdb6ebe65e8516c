"""Receive messages over UDP, TCP and TLS: shared by syslog and statsd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.ingest.sockets.endpoints import endpoints_of as endpoints_of
else:
    __getattr__ = lazy_exports(__name__)
