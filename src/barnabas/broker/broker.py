"""A broker: its parts, put together from its configuration; how it starts, what it does while it runs, how it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeVar

from barnabas.broker.cluster_connection import (
    balance_seconds,
    connection_from,
    found_cluster,
    healing_settings_from,
)
from barnabas.broker.cluster_control import ClusterControl
from barnabas.broker.cluster_view import BrokerView
from barnabas.broker.controlled_shutdown import IN_FLIGHT_SECONDS, controlled_shutdown
from barnabas.broker.coordinators import Coordinators
from barnabas.broker.dynamic_config import DynamicConfig
from barnabas.broker.failed_log_dirs import FailedLogDirs
from barnabas.broker.from_config import (
    authorizer_from,
    dispatcher_from,
    fetch_sessions_from,
    policy_from,
    quota_limits_from,
    replica_fetches_from,
    telemetry_from,
)
from barnabas.broker.housekeeping import Rounds, keep_house
from barnabas.broker.lifecycle import BrokerLifecycle
from barnabas.broker.local_requests import answer
from barnabas.broker.platform import Platform
from barnabas.broker.security.access import AccessControl
from barnabas.broker.security.audit.writer import AuditWriter, audit_from
from barnabas.broker.security.authentication import Authentication
from barnabas.broker.security.broker_names import BrokerNames, OwnNames, own_names
from barnabas.broker.security.delegation_tokens import DelegationTokens
from barnabas.broker.security.inter_broker import peer_security
from barnabas.broker.tiers.tiering import tiering_from
from barnabas.client.security.settings import PLAINTEXT
from barnabas.cluster.deltas import Delta
from barnabas.cluster.features import SUPPORTED_FEATURES, Levels
from barnabas.cluster.following import MetadataFollower
from barnabas.cluster.image import EMPTY_IMAGE, MetadataImage
from barnabas.cluster.membership import ClusterConnection
from barnabas.cluster.peers import PeerAddresses
from barnabas.config.broker import BrokerConfig
from barnabas.config.replication_settings import RACK_AWARE
from barnabas.controller.controller import Controller
from barnabas.handlers.forwarding import to_controller
from barnabas.log.dirs.manager import LogManager
from barnabas.log.dirs.privacy import make_private
from barnabas.log.recovery.report import Stop
from barnabas.metrics.registry import Registry
from barnabas.metrics.topics import TopicMetrics
from barnabas.network.limits import limits_from, use_process_limits
from barnabas.network.listener import Listener
from barnabas.network.requests.heavy_requests import budget_from
from barnabas.network.socket_server import SocketServer
from barnabas.replication.fetcher import BrokerIdentity
from barnabas.replication.fetchers import ReplicaFetchers
from barnabas.replication.flusher import Flusher
from barnabas.replication.inspections import Inspections
from barnabas.replication.isr import IsrChanges
from barnabas.replication.log_configs import LogConfigs
from barnabas.replication.log_dir_moves import ReplicaMoves
from barnabas.replication.manager import ReplicaManager
from barnabas.replication.partition import Partition
from barnabas.replication.safety import Safety
from barnabas.replication.throttle import FollowerThrottles, Throttle
from barnabas.security.quotas.client_quotas import ClientQuotas
from barnabas.transactions.producer_ids import ProducerIds
from barnabas.worker.log_cleaner import LogCleaner

T = TypeVar("T")

FLUSH_THREADS = 4
DISK_THREADS = 4
LOGIN_THREADS = 4  # for steps of an authentication that compute or wait
CREATED_ON_THE_LOOP = 2  # partitions; the files of a larger topic are made in a thread


class Broker:
    """Make it on the event loop that it will run on: everything here belongs to that loop.

    Handlers get this object, and say in a protocol of their own which of its parts they need.
    """

    supported_features: ClassVar[Levels] = SUPPORTED_FEATURES

    def __init__(
        self,
        config: BrokerConfig,
        *,
        platform: Platform | None = None,
        cluster: ClusterConnection | None = None,
    ) -> None:
        self.platform = platform or Platform()
        self.files, self.clock = self.platform.files, self.platform.clock
        self.dynamic_config = DynamicConfig(config)
        self.config = config
        self.policy = policy_from(config, config)
        self.node_id = config.node_id
        self.is_alone = cluster is None and not config["zookeeper.connect"]
        self.image = EMPTY_IMAGE
        self.broker_epoch = -1
        self.is_fenced = False
        self.timers = asyncio.get_running_loop()
        self.call_soon = self.timers.call_soon
        self.metrics = Registry()
        self.topic_metrics = TopicMetrics(self.metrics)
        # Requests.
        between_brokers = PLAINTEXT if self.is_alone else peer_security(config)
        own = OwnNames() if self.is_alone else own_names(config)
        self.authorizer = authorizer_from(config, own.principals)
        names = BrokerNames(config, own, self.authorizer)
        self.audit = audit_from(config, self.clock)
        self.dispatcher = dispatcher_from(
            config, self, self.metrics, self.authorizer, self.audit, names.is_surely_broker
        )
        self.quotas = ClientQuotas(quota_limits_from(config), self.clock.monotonic)
        addresses = PeerAddresses(self.node_id, config.inter_broker_listener_name, lambda: self.image)
        self.sockets: SocketServer = self.platform.sockets(
            config, self.dispatcher, addresses.hosts, is_alone=self.is_alone
        )
        self._access = AccessControl(self.authorizer, self.quotas, self.dispatcher, self.sockets)
        self.authentication = Authentication(
            config,
            lambda: self.image,
            self.clock,
            self.platform.threads(LOGIN_THREADS, "barnabas-login"),
            self.audit,
        )
        for listener in self.sockets.listeners:
            listener.is_broker = names.may_be_broker
        self.peers = self.platform.peers(
            self.node_id, self._answer, addresses.of, between_brokers, is_alone=self.is_alone
        )
        self.fetch_sessions = fetch_sessions_from(config, self.clock)
        self.telemetry = telemetry_from(config, self.clock)
        self.fetch_max_bytes: int = config["fetch.max.bytes"]
        self.reads_from_followers: bool = config["replica.selector.class"] == RACK_AWARE
        self.refused_configs = 0  # changes beyond barnabas.configs.max.resources
        # The cluster.
        cluster = cluster or connection_from(
            config, self.files, self.supported_features, lambda: self.metadata.image
        )
        self._cluster, self._membership = cluster, cluster.membership
        self.metadata = MetadataFollower(cluster.store)
        self.controller = Controller(cluster.store, self.node_id, self.metadata)
        self._control = ClusterControl(
            self.controller,
            self._membership,
            lambda: self.policy,
            lambda: found_cluster(self.config, self.logs),
            lambda: balance_seconds(self.config),
            healing_settings_from(config),
            self.supported_features,
            is_alone=self.is_alone,
        )
        self._lifecycle = BrokerLifecycle(self, self._membership)
        self.producer_ids = ProducerIds(self._ask_controller, self._identity)
        self.delegation_tokens = DelegationTokens(config, self.controller, self.clock)
        # Logs.
        self._disk = self.platform.threads(DISK_THREADS, "barnabas-disk")
        self._flushing = self.platform.threads(FLUSH_THREADS, "barnabas-flush")
        self.logs: LogManager = LogManager(
            self.files, config.log_dirs, self.clock, config, boot_id=self.platform.boot_id
        )
        self.logs.on_truncation = self.sockets.log_truncated
        self.tiering = tiering_from(self, self.platform, config)
        self.page_cache = self.tiering.page_cache(self._disk, self.timers)
        self.inspections = Inspections(self.metrics)
        self._log_configs = LogConfigs(config)
        self.failed_dirs = FailedLogDirs(self, self._ask_controller, self.follow_leadership)
        self.flusher = Flusher(self._flushing, self.failed_dirs.flush_failed)
        self.safety = Safety(self.flusher, config["barnabas.acks.all.fsync"])
        self.log_cleaner = LogCleaner(self)
        self.moves = ReplicaMoves(self)
        # Replication.
        self.replicas = ReplicaManager(
            self.node_id, self.logs, self._log_configs.of, self.topic_metrics.of, BrokerView(self)
        )
        self.leader_throttle = Throttle(self.clock.monotonic)
        self.follower_throttles = FollowerThrottles(self.clock.monotonic)
        self.isr_changes = IsrChanges(self._ask_controller, self._identity)
        self._replica_fetches = replica_fetches_from(config)
        self.fetchers = ReplicaFetchers(
            self.peers,
            self._identity,
            lambda: self._replica_fetches,
            self.clock,
            self.follower_throttles,
            self.platform.turn_limit,
            self.tiering.moved_to_tiers,
        )
        self.replicas.on_applied = self._partition_applied
        # Coordinators, and what watches over all of it.
        self.coordinators: Coordinators = Coordinators(self)
        self._audit_writer = AuditWriter(self, config)
        self.monitoring = self.platform.monitoring(self)
        self._housekeeping = Rounds(
            lambda: keep_house(self),
            self.platform.housekeeping_seconds,
            self.clock.monotonic,
            self.platform.turn_limit,
        )
        self._use_config()

    # -- start and stop -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Serve clients; after an error nothing is left open."""
        try:
            await self._open()
            await self._join_cluster()
            self._start_replication()
            await self._serve()
        except BaseException:
            await self.abort()
            await self._membership.leave()
            raise

    async def _open(self) -> None:
        """Ports first: they are registered with the cluster."""
        self.sockets.open()
        self.logs.lock()
        await self.in_thread(lambda: make_private(self.files, self.config.log_dirs))
        self.logs.use_background(self._in_background)
        self.logs.use_threads(lambda name: self.platform.threads(1, name))
        self.inspections.start(self.platform.threads(1, "barnabas-inspect"), self.sockets.memory)
        await self.tiering.start()

    async def _join_cluster(self) -> None:
        """Follow the metadata, stand for election, load the logs that belong here, and be registered."""
        await self._cluster.open(self.logs.cluster_id, self.logs.folder_id)
        await self.metadata.start()
        self._control.start()
        image = await self.metadata.until(lambda image: bool(image.cluster_id))
        await self._access.prepare(image)
        self.use(image)
        self.logs.claim(self.cluster_id, self.node_id)
        # In a thread: after a crash it may take longer than a session lives without a sign of the loop.
        found = await self.in_thread(
            lambda: self.logs.load(
                lambda place, topic_id: self._log_configs.expected(self.image, self.node_id, place, topic_id)
            )
        )
        await self._lifecycle.join(clean=Stop.CRASHED not in found.stops.values())
        self.dynamic_config.warn_of_overruled()
        self.logs.loss_is_told()

    def _start_replication(self) -> None:
        """From here on partitions lead and follow; what the image says of them is taken over now."""
        self.replicas.load(self.image)
        self.coordinators.start()
        self.metadata.on_commit.append(self._apply)
        self.failed_dirs.report()
        self._lifecycle.watch()

    async def _serve(self) -> None:
        """Clients are let in last."""
        await self.sockets.start()
        await self.monitoring.start(self.config["barnabas.metrics.listen"] or "")
        self._housekeeping.start()
        self._audit_writer.start()
        self.log_cleaner.start()
        self.moves.start()

    async def stop(self) -> None:
        """Finish what is in flight, flush, and mark every log dir clean."""
        patience = IN_FLIGHT_SECONDS if self.is_alone else await controlled_shutdown(self, self._membership)
        await self._stop_serving(patience)
        await self.tiering.stop()
        await self._audit_writer.stop()
        self._stop_replication()
        self._control.stop()
        await self._membership.leave()
        await self.controller.stop()
        self._close_threads()
        self.logs.broker_epoch = self.broker_epoch
        self.logs.close()

    async def abort(self) -> None:
        """End as a killed process does: nothing is handed over, answered, flushed or marked clean."""
        self._control.stop()
        self._audit_writer.abort()
        self.metadata.stop()
        self._stop_replication()
        await self._stop_serving(patience=0.0)
        await self.tiering.stop()
        self._close_threads()
        self.logs.close(clean=False)

    async def _stop_serving(self, patience: float) -> None:
        self._housekeeping.stop()
        await self.monitoring.stop()
        await self.log_cleaner.stop()
        await self.moves.stop()
        await self.sockets.stop(patience)

    def _stop_replication(self) -> None:
        self.coordinators.stop()
        self.fetchers.stop()
        self.isr_changes.stop()
        self.failed_dirs.stop()
        self.delegation_tokens.stop()
        self._lifecycle.stop()
        self.peers.close()

    def _close_threads(self) -> None:
        self.inspections.stop()
        self.authentication.close()
        self._flushing.close()
        self._disk.close()

    # -- while it runs ------------------------------------------------------------------------------

    async def _apply(self, image: MetadataImage, deltas: list[Delta]) -> None:
        """The metadata have changed: settings, partitions, coordinators and metrics follow, in this order."""
        new = self.replicas.new_partitions(image, deltas)
        if len(new) > CREATED_ON_THE_LOOP:
            await self.in_thread(self.logs.prepare(new))
        await self._access.prepare(image)
        before = self.image
        self.use(image)
        if self.config["barnabas.credential.change.ends.sessions"]:
            self._access.end_sessions(deltas)
        for count, _ in enumerate(self.replicas.apply(image, deltas), 1):
            if count % self.platform.applied_at_once == 0:
                await asyncio.sleep(0)
        self.tiering.applied(deltas)
        if self.replicas.is_awaiting_room:
            self.failed_dirs.report()
        self.coordinators.applied(before, deltas)
        self.monitoring.follow(before, deltas)

    def _partition_applied(self, partition: Partition) -> None:
        self.fetchers.follow(partition)
        self.tiering.follow(partition)

    def use(self, image: MetadataImage) -> None:
        """Take over what the cluster says of itself and its settings; partitions follow in `_apply`."""
        has_new_configs = image.configs is not self.image.configs
        self._access.follow(self.image, image)
        self.image = image
        if has_new_configs and self.dynamic_config.update(image):
            self._use_config()

    def _use_config(self) -> None:
        """Give every part the settings that may change while it runs."""
        config = self.config = self.dynamic_config.current
        self.policy = policy_from(config, self.dynamic_config.without_defaults)
        self.fetch_max_bytes = config["fetch.max.bytes"]
        self.reads_from_followers = config["replica.selector.class"] == RACK_AWARE
        self.safety.fsync = config["barnabas.acks.all.fsync"]
        self._replica_fetches = replica_fetches_from(config)
        self._log_configs.use(config)
        self.logs.use_config(config)
        self.tiering.use_config(config)
        self.leader_throttle.rate = config["leader.replication.throttled.rate"]
        self.follower_throttles.listed.rate = config["follower.replication.throttled.rate"]
        self.follower_throttles.moving.rate = config["barnabas.reassignment.throttled.rate"]
        self.moves.throttle.rate = config["replica.alter.log.dirs.io.max.bytes.per.second"]
        self.sockets.use_limits(limits_from(config))
        self.authentication.use(config, self.sockets.listeners)
        self.sockets.tls.use(config)
        self.dispatcher.use_budget(budget_from(config))
        use_process_limits(config)
        self.dispatcher.slow_request_seconds = config["barnabas.slow.request.ms"] / 1000 or float("inf")

    # -- what its parts ask of it -------------------------------------------------------------------

    @property
    def listeners(self) -> list[Listener]:
        return self.sockets.listeners

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{each.host or '127.0.0.1'}:{each.port}" for each in self.listeners)

    @property
    def cluster_id(self) -> str:
        return self.image.cluster_id

    @property
    def refusal(self) -> str | None:
        """Why the cluster does not let this broker in again after it has lost its session."""
        return self._lifecycle.refusal

    @property
    def on_all_dirs_failed(self) -> Callable[[], None]:
        return self.failed_dirs.on_all_failed

    @on_all_dirs_failed.setter
    def on_all_dirs_failed(self, callback: Callable[[], None]) -> None:
        self.failed_dirs.on_all_failed = callback

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run something that may wait for the disk."""
        return await self._disk.call(work)

    def _in_background(self, work: Callable[[], None]) -> None:
        """Removing files and the like: no one waits for it."""
        self._disk.run(work, lambda error: None)

    def _answer(self, message: Any) -> Awaitable[Any]:
        return answer(self, message)

    def _ask_controller(self, message: Any) -> Awaitable[Any]:
        return to_controller(self, message)

    def _identity(self) -> BrokerIdentity:
        return BrokerIdentity(self.node_id, self.broker_epoch)

    def follow_leadership(self) -> None:
        """Another leader, or none, may lead what this broker led: its coordinators follow."""
        self.coordinators.follow()
