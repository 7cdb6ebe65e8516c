"""Sockets to requests. SocketServer owns the listeners, the connections and the limits that protect the
broker from its clients; Connection cuts bytes into requests and sends responses. `requests/` takes a
request from its frame to its handler and back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.network.broker_addresses import BrokerAddresses
    from barnabas.network.connection import Connection
    from barnabas.network.event_loop import new_event_loop
    from barnabas.network.exposure import warn_if_metrics_exposed
    from barnabas.network.limits import limits_from, use_process_limits
    from barnabas.network.listener import Listener
    from barnabas.network.memory_pool import MemoryPool
    from barnabas.network.page_residency import is_cached
    from barnabas.network.socket_metrics import LoopMonitor, declare_network_metrics
    from barnabas.network.socket_server import SocketServer
    from barnabas.network.tls_listeners import Fingerprint, TlsListener, TlsListeners, fingerprint, loaded
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "broker_addresses": "BrokerAddresses",
            "connection": "Connection",
            "event_loop": "new_event_loop",
            "exposure": "warn_if_metrics_exposed",
            "limits": "limits_from use_process_limits",
            "listener": "Listener",
            "memory_pool": "MemoryPool",
            "page_residency": "is_cached",
            "socket_metrics": "LoopMonitor declare_network_metrics",
            "socket_server": "SocketServer",
            "tls_listeners": "Fingerprint TlsListener TlsListeners fingerprint loaded",
        },
    )

__all__ = [
    "BrokerAddresses",
    "Connection",
    "Fingerprint",
    "Listener",
    "LoopMonitor",
    "MemoryPool",
    "SocketServer",
    "TlsListener",
    "TlsListeners",
    "declare_network_metrics",
    "fingerprint",
    "is_cached",
    "limits_from",
    "loaded",
    "new_event_loop",
    "use_process_limits",
    "warn_if_metrics_exposed",
]
