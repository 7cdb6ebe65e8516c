"""A broker inside the process of a test: the same broker that `barnabas serve` runs, in a thread of its own.

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
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from barnabas.common.errors import ErrorCode
from barnabas.common.suggestions import closest
from barnabas.protocol.api import ApiKey
from barnabas.testing.client_settings import ClientSettings, plain_users
from barnabas.testing.fork import Belongings, let_go_in_child
from barnabas.testing.loop_thread import LoopThread

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.testing.embedded_registry import EmbeddedRegistry


# -- API and error names in any case, or their numbers --------------------------------------------------

E = TypeVar("E", bound=IntEnum)


def member(kind: type[E], wanted: int | str) -> E:
    """The member of an enumeration that is meant; ValueError, with the nearest name, if there is none."""
    if not isinstance(wanted, str):
        return kind(wanted)
    names = {_plain(each.name): each for each in kind}
    found = names.get(_plain(wanted))
    if found is None:
        raise ValueError(f"there is no {kind.__name__} {wanted!r}{_suggestion(_plain(wanted), names)}")
    return found


def _plain(name: str) -> str:
    """Kafka writes LIST_OFFSETS, ListOffsets and even NotLeaderOrFollower for the same thing."""
    return name.replace("_", "").replace(" ", "").lower()


def _suggestion(name: str, names: dict[str, E]) -> str:
    match = closest(name, names)
    return f"; did you mean {names[match].name}?" if match is not None else ""


TLS_FOLDER, AUTHORITY = "tls", "ca.pem"  # where `barnabas.tls.auto` puts it
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
START_TIMEOUT = 60.0  # a machine that runs many tests at once is slow
STOP_TIMEOUT = 60.0
NOT_RUNNING = "the broker is not running: use it in a `with` block, or call start()"

# What a test wants: speed instead of safety from power cuts, and no waiting for members that never come.
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
    """Ready when the constructor's `with` block begins. Several may run in one process.

    `settings` are Kafka's server settings. `security` is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL: certificates are
    made, and `users` are names and passwords for SASL. `registry` starts a schema registry, too. Without `data_dir` the
    records live in a temporary folder that `stop` removes. A child process that was forked does not share the broker:
    it neither keeps its sockets open nor stops it.
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
        """What the next start uses; changing it does nothing to a broker that runs."""
        self._given_dir = None if data_dir is None else Path(data_dir)
        self._temporary: Path | None = None
        self._thread: LoopThread | None = None
        self._broker: Broker | None = None
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
        return self._broker is not None and self._owner == os.getpid()

    @property
    def bootstrap_servers(self) -> str:
        """What clients call `bootstrap.servers`, those in forked children too."""
        if self._broker is None:
            raise RuntimeError(NOT_RUNNING)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def registry_url(self) -> str:
        """What clients call `schema.registry.url`; for brokers with `registry=True`."""
        if self._registry is None:
            raise RuntimeError(
                "there is no schema registry: make the broker with registry=True, and start it"
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
        """The certificate of the authority that clients trust, as PEM; for brokers with `security="SSL"`."""
        if not self._has_tls:
            raise RuntimeError(f'the broker speaks {self.security}: make it with security="SSL"')
        return self.data_dir / TLS_FOLDER / AUTHORITY

    @property
    def clients(self) -> ClientSettings:
        """Ready settings for clients: `Producer(broker.clients.confluent)`."""
        return self.clients_of(next(iter(self._users), ""))

    def clients_of(self, user: str, mechanism: str = "PLAIN") -> ClientSettings:
        """The same for one of several users, and for SCRAM-SHA-256 or -512; `clients` is the first user."""
        trusted, password = self.ca_file if self._has_tls else None, self._users[user] if user else ""
        asks = self._has_tls and self.settings.get("ssl.client.auth", "none") != "none"
        own = self.client_certificate(user or "client") if asks else None
        return ClientSettings(self.bootstrap_servers, self.security, trusted, user, password, mechanism, own)

    def client_certificate(self, name: str) -> Path:
        """A certificate for `CN=name` and its key, signed by the broker's own authority; for `ssl.client.auth`."""
        from barnabas.security.tls.authority import Authority

        return Authority(self.ca_file.parent).client(name)

    @property
    def data_dir(self) -> Path:
        """The folder with the partitions' folders; it is there while the broker runs."""
        folder = self._given_dir or self._temporary
        if folder is None:
            raise RuntimeError("the broker has no folder before it is started")
        return folder

    @property
    def broker(self) -> Broker:
        """The broker itself, to look at: its methods belong to its own thread."""
        return self._running_broker()

    @property
    def belongings(self) -> Belongings | None:
        """What a forked child must let go of."""
        return None if self._broker is None else Belongings(self.port, str(self.data_dir))

    def start(self) -> Self:
        """Start, and return when clients are served. What went wrong is raised here."""
        if self._broker is not None:
            raise RuntimeError("the broker is running already")
        if self._given_dir is None and self._temporary is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="barnabas-"))
        self._thread = LoopThread("barnabas broker")
        try:
            self._broker = self._thread.run(self._start_broker(), START_TIMEOUT)
        except BaseException:
            self._abandon()
            raise
        self._owner = os.getpid()
        self.port = self._broker.listeners[0].port  # stays the same over a restart
        let_go_in_child(self)
        if self._with_registry:
            self._start_registry()
        return self

    def stop(self) -> None:
        """Stop in order and remove the temporary folder. Harmless when repeated, and in a forked child."""
        if self._owner and self._owner != os.getpid():
            return
        try:
            self._halt()
        finally:
            self._remove_temporary()

    def kill(self) -> None:
        """End without a goodbye, as kill -9 does to a process: nothing is flushed, handed over or marked clean."""
        thread, broker = self._in_thread(), self._running_broker()
        self._stop_registry()
        self._broker = None
        try:
            thread.run(broker.abort(), STOP_TIMEOUT)
        finally:
            self._close_thread()

    def restart(self) -> None:
        """Stop and start again on the same data and the same port, as an upgrade of a server does."""
        self._running_broker()
        self._halt()
        self.start()

    def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = -1,
    ) -> str:
        """Create a topic and return its name; without a name, one that is new."""
        chosen = name or f"embedded-topic-{self.next_number()}"
        thread = self._in_thread()
        creating = self._create_topic(chosen, partitions, dict(configs or {}), replication_factor)
        thread.run(creating, START_TIMEOUT)
        return chosen

    def next_number(self) -> int:
        """A number that this broker has not given out yet, for names."""
        return next(self._numbers)

    def inject(self, api: ApiKey | int | str, error: ErrorCode | int | str, times: int = 1) -> None:
        """Answer the next requests of an API with an error: `inject("Produce", "NOT_LEADER_OR_FOLLOWER")`."""
        api_key, code = member(ApiKey, api), member(ErrorCode, error)
        thread = self._in_thread()
        thread.run(self._inject(api_key, code, times), START_TIMEOUT)

    def _start_registry(self) -> None:
        from barnabas.client.security.parsing import parse_security
        from barnabas.testing.embedded_registry import EmbeddedRegistry

        try:
            security = parse_security(self.clients.java)
            self._registry = EmbeddedRegistry(
                self.bootstrap_servers, security, self.host, self._registry_port
            )
        except BaseException:
            self.stop()
            raise
        self._registry_port = self._registry.port  # stays the same over a restart

    def _stop_registry(self) -> None:
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.stop()

    async def _start_broker(self) -> Broker:
        from barnabas.broker.broker import Broker
        from barnabas.config.broker import BrokerConfig

        host = f"[{self.host}]" if ":" in self.host else self.host
        properties = {
            **TEST_SETTINGS,
            "listeners": f"{self.security}://{host}:{self.port}",
            "log.dirs": str(self.data_dir),
            "barnabas.tls.auto": str(self._has_tls).lower(),
            **self._sasl_settings(),
            **self.settings,
        }
        broker = Broker(BrokerConfig.load(properties))
        await broker.start()
        await self._add_users(broker)
        return broker

    async def _add_users(self, broker: Broker) -> None:
        from barnabas.broker.security.offline import add_user

        for name, password in self._users.items():
            await add_user(broker, name, password)

    def _sasl_settings(self) -> dict[str, str]:
        if not self._has_sasl:
            return {}
        name = f"listener.name.{self.security.lower()}.plain.sasl.jaas.config"
        return {"sasl.enabled.mechanisms": ",".join(MECHANISMS), name: plain_users(self._users)}

    async def _create_topic(self, name: str, partitions: int, configs: dict[str, str], replicas: int) -> None:
        from barnabas.client import admin
        from barnabas.client.cluster import Client
        from barnabas.client.security.parsing import parse_security

        security = parse_security(self.clients.java)
        async with Client(self.bootstrap_servers, client_id="embedded", security=security) as client:
            await admin.create_topic(
                client, name, partitions=partitions, replication_factor=replicas, configs=configs
            )

    async def _inject(self, api_key: ApiKey, code: ErrorCode, times: int) -> None:
        self._running_broker().dispatcher.inject(api_key, code, times)

    def _halt(self) -> None:
        self._stop_registry()
        broker, self._broker = self._broker, None
        try:
            if broker is not None and self._thread is not None:
                self._thread.run(broker.stop(), STOP_TIMEOUT)
        finally:
            self._close_thread()

    def _abandon(self) -> None:
        """After a failed start: leave neither a thread nor a folder behind."""
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

    def _running_broker(self) -> Broker:
        if self._broker is None:
            raise RuntimeError(NOT_RUNNING)
        if self._owner != os.getpid():
            raise RuntimeError(
                "the broker runs in the process that this one was forked from: here, only be a client of it"
            )
        return self._broker

    def _in_thread(self) -> LoopThread:
        self._running_broker()
        assert self._thread is not None
        return self._thread
