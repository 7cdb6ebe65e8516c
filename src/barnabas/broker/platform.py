"""What a broker runs on: files, clock, threads, sockets, the network to its peers. The simulator has another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.broker.from_config import listeners_from, quota_limits_from
from barnabas.broker.monitoring import Monitored, Monitoring
from barnabas.broker.security.tls import tls_from
from barnabas.broker.security.tls_reload import PeerTls, TlsReload
from barnabas.client.security import ClientSecurity
from barnabas.cluster import Answer, LocalPeers, Locate, NetworkPeers, Peers
from barnabas.common.allocation import keep_freed_memory
from barnabas.common.clock import Clock, SystemClock, TurnLimit
from barnabas.common.files import FileSystem, LocalFileSystem
from barnabas.common.threads import ThreadBackground
from barnabas.config.broker import BrokerConfig
from barnabas.log.dirs import kernel_boot_id
from barnabas.network import BrokerAddresses, SocketServer, limits_from
from barnabas.security.quotas.address_quotas import AddressQuotas

if TYPE_CHECKING:
    from barnabas.network.requests.dispatch import Dispatcher
    from barnabas.tiering.stores import ObjectStore


class Platform:
    turn_limit = TurnLimit()  # of housekeeping, and of what leaders send
    applied_at_once = (
        32  # partitions that apply a change of the metadata before the loop serves requests again
    )

    housekeeping_seconds = 1.0  # between two rounds
    probe_rounds: int | None = (
        None  # of races, before an object store is written to; None: as many as it takes
    )

    def __init__(self, files: FileSystem | None = None, clock: Clock | None = None) -> None:
        self.files = files or LocalFileSystem()
        self.clock = clock or SystemClock()
        self._tls_reload: TlsReload | None = None

    def boot_id(self) -> str | None:
        """Changes when the machine restarts: what was not flushed before that may be lost."""
        return kernel_boot_id()

    def threads(self, count: int, name: str) -> ThreadBackground:
        """Threads whose results come to the loop that runs now."""
        return ThreadBackground(asyncio.get_running_loop(), count, name)

    def sockets(
        self,
        config: BrokerConfig,
        dispatcher: Dispatcher,
        other_hosts: Callable[[], Iterable[str]],
        *,
        is_alone: bool,
    ) -> SocketServer:
        tls = tls_from(config)
        self._tls_reload = tls.reload = TlsReload(tls, config)
        limits = quota_limits_from(config)
        return SocketServer(
            listeners_from(config, tls, is_alone=is_alone),
            dispatcher,
            limits_from(config),
            address_quotas=AddressQuotas(limits.windows, self.clock.monotonic, limits.clients),
            brokers=BrokerAddresses(other_hosts),
            brokers_listener=config.listener_of_brokers_alone,
            tls=tls,
        )

    def peers(
        self, node_id: int, answer: Answer, locate: Locate, security: ClientSecurity, *, is_alone: bool
    ) -> Peers:
        """`answer` serves what a broker asks of itself, `locate` says where another one listens."""
        if is_alone:
            return LocalPeers(node_id, answer)
        tls = PeerTls(security)
        if self._tls_reload is not None:
            self._tls_reload.peers = tls
        return NetworkPeers(node_id, answer, locate, tls.guard)

    def object_store(self, url: str, options: Mapping[str, str]) -> ObjectStore:
        from barnabas.tiering.stores import open_store

        keep_freed_memory()  # chunks and parts of some MiB come and go
        return open_store(url, options)

    def monitoring(self, broker: Monitored) -> Monitoring:
        return Monitoring(broker)
