"""Broker in the process of a test: the same broker that `barnabas serve` runs, on a separate thread.

with EmbeddedBroker() as broker:
    broker.create_topic("orders", partitions=3)
    Producer({"bootstrap.servers": broker.bootstrap_servers})
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from barnabas.common.errors import ErrorCode
from barnabas.common.loop_thread import LoopThread
from barnabas.common.suggestions import member
from barnabas.network import new_event_loop
from barnabas.protocol.api import ApiKey
from barnabas.testing.client_settings import ClientSettings, plain_users
from barnabas.testing.fork import ForkResources, release_in_child

if TYPE_CHECKING:
    from barnabas.broker import Broker
    from barnabas.testing.embedded_node import EmbeddedNode
    from barnabas.testing.embedded_registry import EmbeddedRegistry


TLS_FOLDER, AUTHORITY = "tls", "ca.pem"  # of `barnabas.tls.auto`
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
START_TIMEOUT = 60.0  # long, for machines that run many tests in parallel
STOP_TIMEOUT = 60.0
NOT_RUNNING = "the broker is not running: use it in a `with` block, or call start()"

# For tests: fast instead of durable, and no delay for further group members.
TEST_SETTINGS = {
    "barnabas.acks.all.fsync": "never",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class EmbeddedBroker:
    """Ready when its `with` block begins. Several may run in one process.

    `settings` are Kafka's server settings. `security` is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL: certificates are
    created, and `users` are names and passwords for SASL. `registry` starts a schema registry, too. Without `data_dir`
    the data are in a temporary folder that `stop` removes. Forked child processes do not share the broker: they neither
    keep its sockets open nor stop it.

    `processes` above 1 is a node with several broker processes, as `serve --processes` starts it, in child processes on
    consecutive ports; `broker` and `inject` need a single one.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        security: str = "PLAINTEXT",
        users: Mapping[str, str] | None = None,
        registry: bool = False,
        processes: int = 1,
    ) -> None:
        self.host = host
        self.security = security.upper()
        self._users = dict(users or {})
        if self._users and not self._has_sasl:
            raise ValueError(f'users are for security="SASL_SSL" or "SASL_PLAINTEXT", not {self.security}')
        if self._has_sasl and not self._users:
            raise ValueError(f'{self.security} needs users={{"alice": "her password"}}')
        self.port = port
        self._with_registry = registry
        self._registry: EmbeddedRegistry | None = None
        self._registry_port = 0
        self.settings = dict(settings or {})
        """Settings of the next start; changes do not affect a running broker."""
        self._given_dir = None if data_dir is None else Path(data_dir)
        self._temporary: Path | None = None
        self._thread: LoopThread | None = None
        self._broker: Broker | None = None
        self._processes = processes
        self._node: EmbeddedNode | None = None
        self._owner = 0
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        return self._is_started and self._owner == os.getpid()

    @property
    def _is_started(self) -> bool:
        return self._broker is not None or self._node is not None

    @property
    def bootstrap_servers(self) -> str:
        """Value of `bootstrap.servers` for clients, also in forked children."""
        if not self._is_started:
            raise RuntimeError(NOT_RUNNING)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return ",".join(f"{host}:{self.port + k}" for k in range(self._processes))

    @property
    def registry_url(self) -> str:
        """Value of `schema.registry.url` for clients; only with `registry=True`."""
        if self._registry is None:
            raise RuntimeError(
                "the broker has no schema registry: create it with registry=True, and start it"
            )
        return self._registry.url

    @property
    def _has_tls(self) -> bool:
        return self.security.endswith("SSL")

    @property
    def _has_sasl(self) -> bool:
        return self.security.startswith("SASL")

    @property
    def ca_file(self) -> Path:
        """Certificate of the authority that clients must trust, as PEM; only with TLS."""
        if not self._has_tls:
            raise RuntimeError(f'the broker uses {self.security}: create it with security="SSL"')
        return self.data_dir / TLS_FOLDER / AUTHORITY

    @property
    def clients(self) -> ClientSettings:
        """Client settings of the first user: `Producer(broker.clients.confluent)`."""
        return self.clients_of(next(iter(self._users), ""))

    def clients_of(self, user: str, mechanism: str = "PLAIN") -> ClientSettings:
        """Client settings of a user, for PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""
        ca_file, password = self.ca_file if self._has_tls else None, self._users[user] if user else ""
        needs_key = self._has_tls and self.settings.get("ssl.client.auth", "none") != "none"
        key = self.client_certificate(user or "client") if needs_key else None
        return ClientSettings(self.bootstrap_servers, self.security, ca_file, user, password, mechanism, key)

    def client_certificate(self, name: str) -> Path:
        """Create a certificate for `CN=name`, signed by the broker's authority; for `ssl.client.auth`."""
        from barnabas.security.tls import Authority

        return Authority(self.ca_file.parent).client(name)

    @property
    def data_dir(self) -> Path:
        """Directory of the partitions; exists while the broker runs."""
        folder = self._given_dir or self._temporary
        if folder is None:
            raise RuntimeError("the broker has no data directory before it is started")
        return folder

    @property
    def broker(self) -> Broker:
        """The broker object, for inspection; its methods must run on its thread."""
        return self._running_broker()

    @property
    def fork_resources(self) -> ForkResources | None:
        """Port and data directory whose descriptors a forked child must close."""
        return None if self._broker is None else ForkResources(self.port, str(self.data_dir))

    def start(self) -> Self:
        """Start, and return when clients can connect; raises the error of a failed start."""
        if self._is_started:
            raise RuntimeError("the broker is running already")
        if self._given_dir is None and self._temporary is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="barnabas-"))
        self._thread = LoopThread("barnabas broker", new_event_loop())
        try:
            if self._processes > 1:
                self._start_node()
            else:
                self._broker = self._thread.run(self._start_broker(), START_TIMEOUT)
                self.port = self._broker.listeners[0].port  # kept across restarts
        except BaseException:
            self._abandon()
            raise
        self._owner = os.getpid()
        release_in_child(self)
        if self._with_registry:
            self._start_registry()
        return self

    def stop(self) -> None:
        """Shut down cleanly and remove the temporary folder. Idempotent; does nothing in a forked child."""
        if self._owner and self._owner != os.getpid():
            return
        try:
            self._halt()
        finally:
            self._remove_temporary()

    def kill(self, process: int | None = None) -> None:
        """Stop like kill -9: without flushing, controlled shutdown or a clean shutdown marker.

        `process` is one of several, which is started again.
        """
        if process is not None:
            if self._node is None:
                raise RuntimeError("the broker has one process: create it with processes=2")
            self._node.kill(process)
            return
        self._check_running()
        self._stop_registry()
        (node, self._node), (broker, self._broker) = (self._node, None), (self._broker, None)
        try:
            if node is not None:
                node.kill()
            elif broker is not None and self._thread is not None:
                self._thread.run(broker.abort(), STOP_TIMEOUT)
        finally:
            self._close_thread()

    def restart(self) -> None:
        """Restart with the same data and port, as during an upgrade."""
        self._check_running()
        self._halt()
        self.start()

    def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = -1,
    ) -> str:
        """Create a topic and return its name; without a name, a unique one is generated."""
        chosen = name or f"embedded-topic-{self.next_number()}"
        self._check_running()
        assert self._thread is not None
        creating = self._create_topic(chosen, partitions, dict(configs or {}), replication_factor)
        self._thread.run(creating, START_TIMEOUT)
        return chosen

    def next_number(self) -> int:
        """Return a number that is unique for this broker, for names."""
        return next(self._numbers)

    def inject(self, api: ApiKey | int | str, error: ErrorCode | int | str, times: int = 1) -> None:
        """Fail the next requests of an API with an error: `inject("Produce", "NOT_LEADER_OR_FOLLOWER")`."""
        api_key, code = member(ApiKey, api), member(ErrorCode, error)
        thread = self._in_thread()
        thread.run(self._inject(api_key, code, times), START_TIMEOUT)

    def _start_registry(self) -> None:
        from barnabas.client.security import parse_security
        from barnabas.testing.embedded_registry import EmbeddedRegistry

        try:
            security = parse_security(self.clients.java)
            self._registry = EmbeddedRegistry(
                self.bootstrap_servers, security, self.host, self._registry_port
            )
        except BaseException:
            self.stop()
            raise
        self._registry_port = self._registry.port  # kept across restarts
        if self._broker is not None:
            self._broker.registry_address = self._registry.url

    def _stop_registry(self) -> None:
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.stop()

    def _start_node(self) -> None:
        from barnabas.testing.embedded_node import EmbeddedNode, consecutive_ports

        self.port = self.port or consecutive_ports(self.host, self._processes)
        self._node = EmbeddedNode(self._properties(), self._processes, self._users)

    async def _start_broker(self) -> Broker:
        from barnabas.broker import Broker
        from barnabas.config.broker import BrokerConfig

        broker = Broker(BrokerConfig.load(self._properties()))
        await broker.start()
        await self._add_users(broker)
        return broker

    def _properties(self) -> dict[str, str]:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return {
            **TEST_SETTINGS,
            "listeners": f"{self.security}://{host}:{self.port}",
            "log.dirs": str(self.data_dir),
            "barnabas.tls.auto": str(self._has_tls).lower(),
            **self._sasl_settings(),
            **self.settings,
        }

    async def _add_users(self, broker: Broker) -> None:
        from barnabas.broker.security import add_user

        for name, password in self._users.items():
            await add_user(broker, name, password)

    def _sasl_settings(self) -> dict[str, str]:
        if not self._has_sasl:
            return {}
        name = f"listener.name.{self.security.lower()}.plain.sasl.jaas.config"
        return {"sasl.enabled.mechanisms": ",".join(MECHANISMS), name: plain_users(self._users)}

    async def _create_topic(self, name: str, partitions: int, configs: dict[str, str], replicas: int) -> None:
        from barnabas.client import Client, admin
        from barnabas.client.security import parse_security

        security = parse_security(self.clients.java)
        async with Client(self.bootstrap_servers, client_id="embedded", security=security) as client:
            await admin.create_topic(
                client, name, partitions=partitions, replication_factor=replicas, configs=configs
            )

    async def _inject(self, api_key: ApiKey, code: ErrorCode, times: int) -> None:
        self._running_broker().dispatcher.inject(api_key, code, times)

    def _halt(self) -> None:
        self._stop_registry()
        (node, self._node), (broker, self._broker) = (self._node, None), (self._broker, None)
        try:
            if node is not None:
                node.stop()
            elif broker is not None and self._thread is not None:
                self._thread.run(broker.stop(), STOP_TIMEOUT)
        finally:
            self._close_thread()

    def _abandon(self) -> None:
        """Clean up thread and folder after a failed start."""
        self._close_thread()
        self._remove_temporary()

    def _close_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()

    def _remove_temporary(self) -> None:
        folder, self._temporary = self._temporary, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _check_running(self) -> None:
        if not self._is_started:
            raise RuntimeError(NOT_RUNNING)
        if self._owner != os.getpid():
            raise RuntimeError(
                "the broker runs in the parent process; a forked child can only use it as a client"
            )

    def _running_broker(self) -> Broker:
        self._check_running()
        if self._broker is None:
            raise RuntimeError(
                "the broker has several processes, outside of this one: create it with processes=1"
            )
        return self._broker

    def _in_thread(self) -> LoopThread:
        self._running_broker()
        assert self._thread is not None
        return self._thread
