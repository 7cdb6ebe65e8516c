"""Sockets to requests. SocketServer owns the listeners, the connections and the limits that protect the
broker from its clients; Connection cuts bytes into requests and sends responses. `requests/` takes a
request from its frame to its handler and back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.network.broker_addresses import BrokerAddresses as BrokerAddresses
    from barnabas.network.connection import Connection as Connection
    from barnabas.network.event_loop import call_soon_of as call_soon_of
    from barnabas.network.event_loop import new_event_loop as new_event_loop
    from barnabas.network.exposure import warn_if_metrics_exposed as warn_if_metrics_exposed
    from barnabas.network.limits import limits_from as limits_from
    from barnabas.network.limits import use_process_limits as use_process_limits
    from barnabas.network.listener import Listener as Listener
    from barnabas.network.memory_pool import MemoryPool as MemoryPool
    from barnabas.network.page_residency import is_cached as is_cached
    from barnabas.network.socket_metrics import LoopMonitor as LoopMonitor
    from barnabas.network.socket_metrics import declare_network_metrics as declare_network_metrics
    from barnabas.network.socket_server import PROCESSES_LISTENER as PROCESSES_LISTENER
    from barnabas.network.socket_server import SocketServer as SocketServer
    from barnabas.network.tls_listeners import Fingerprint as Fingerprint
    from barnabas.network.tls_listeners import TlsListener as TlsListener
    from barnabas.network.tls_listeners import TlsListeners as TlsListeners
    from barnabas.network.tls_listeners import fingerprint as fingerprint
    from barnabas.network.tls_listeners import loaded as loaded
else:
    __getattr__ = lazy_exports(__name__)
