"""Platform of a broker: files, clock, threads, sockets, connections to peers. The simulator has its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.broker.from_config import listeners_from, quota_limits_from
from barnabas.broker.monitoring import Monitoring, MonitoringNeeds
from barnabas.broker.security.tls import tls_from
from barnabas.broker.security.tls_reload import PeerTls, TlsReload
from barnabas.client.security import ClientSecurity
from barnabas.cluster import Answer, LocalPeers, Locate, NetworkPeers, Peers
from barnabas.common.allocation import keep_freed_memory
from barnabas.common.clock import Clock, SystemClock, TurnLimit
from barnabas.common.files import FileSystem, LocalFileSystem
from barnabas.common.threads import ThreadBackground
from barnabas.config.broker import BrokerConfig
from barnabas.log.dirs import FileLogDirState, LogDirState, kernel_boot_id
from barnabas.network import BrokerAddresses, Listener, SocketServer, limits_from
from barnabas.security.quotas import AddressQuotas

if TYPE_CHECKING:
    from barnabas.broker.companions import BrokerCompanion, CompanionStart
    from barnabas.network.requests import Dispatcher
    from barnabas.tiering.stores import ObjectStore


class Platform:
    turn_limit = TurnLimit()  # of housekeeping and of replica fetches
    applied_at_once = 32  # partitions that apply a metadata change before the loop serves requests again

    housekeeping_seconds = 1.0  # interval between rounds
    probe_rounds: int | None = None  # rounds of the object store's concurrency probe; None for the default

    def __init__(self, files: FileSystem | None = None, clock: Clock | None = None) -> None:
        self.files = files or LocalFileSystem()
        self.clock = clock or SystemClock()
        self._tls_reload: TlsReload | None = None

    def boot_id(self) -> str | None:
        """Id that changes at every restart of the machine: unflushed data may be lost then."""
        return kernel_boot_id()

    def log_dir_state(self, folder: str) -> LogDirState:
        return FileLogDirState(self.files, folder)

    def threads(self, count: int, name: str) -> ThreadBackground:
        """Return a thread pool that delivers results to the running event loop."""
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
        """`answer` handles requests of this broker to itself; `locate` returns the address of another broker."""
        if is_alone:
            return LocalPeers(node_id, answer)
        tls = PeerTls(security)
        if self._tls_reload is not None:
            self._tls_reload.peers = tls
        return NetworkPeers(node_id, answer, locate, tls.guard)

    def object_store(self, url: str, options: Mapping[str, str]) -> ObjectStore:
        from barnabas.tiering.stores import open_store

        keep_freed_memory()  # buffers of several MiB are allocated and freed frequently
        return open_store(url, options)

    def companion(self, start: CompanionStart) -> BrokerCompanion:
        """Run a companion of the broker, which stops it."""
        from barnabas.broker.companions import Companion

        companion = Companion(start)
        companion.start()
        return companion

    def ports(self, listener: Listener) -> Sequence[int]:
        """Ports at which clients reach this node by a listener of the broker."""
        return [listener.port]

    def monitoring(self, broker: MonitoringNeeds) -> Monitoring:
        return Monitoring(broker)
