"""Builds the components of a broker from its configuration, and passes on dynamic config changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar, TypeVar

from barnabas.broker.cluster_connection import (
    BrokerView,
    balance_seconds,
    connection_from,
    found_cluster,
    healing_settings_from,
)
from barnabas.broker.cluster_control import ClusterControl
from barnabas.broker.controlled_shutdown import ControlledShutdown
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
from barnabas.broker.lifecycle import BrokerLifecycle
from barnabas.broker.local_requests import answer
from barnabas.broker.log_cleaner import LogCleaner
from barnabas.broker.move_sizes import size_of_moves
from barnabas.broker.platform import Platform
from barnabas.broker.security.access import AccessControl
from barnabas.broker.security.audit import AuditTopic, AuditWriter, audit_from
from barnabas.broker.security.authentication import Authentication
from barnabas.broker.security.delegation_tokens import DelegationTokens
from barnabas.broker.security.inter_broker import BrokerNames, InterBrokerNames, own_names, peer_security
from barnabas.broker.tiering.no_tiering import tiering_from
from barnabas.client.security import PLAINTEXT
from barnabas.cluster import ClusterConnection, MetadataFollower, NodeProcess, PeerAddresses, represented
from barnabas.cluster.features import SUPPORTED_FEATURES, Levels
from barnabas.cluster.image import EMPTY_IMAGE, MetadataImage
from barnabas.common.cooperative import PeriodicTask
from barnabas.common.timer_queues import TimerQueues
from barnabas.common.types import TopicPartition, Uuid
from barnabas.config.broker import BrokerConfig
from barnabas.config.log_settings import RACK_AWARE
from barnabas.config.topic import LogConfig
from barnabas.controller import Controller
from barnabas.handlers import create_topics, to_controller
from barnabas.handlers.telemetry import PushQueue
from barnabas.log import Log
from barnabas.log.dirs import LogManager
from barnabas.metrics import Registry, TopicMetrics
from barnabas.network import Listener, SocketServer, call_soon_of
from barnabas.replication import (
    Durability,
    Flusher,
    FollowerThrottles,
    Inspections,
    IsrChanges,
    LogConfigs,
    Mirrors,
    Partition,
    PartitionTransfers,
    ReplicaFetchers,
    ReplicaManager,
    ReplicaMoves,
    ReplicationQuota,
)
from barnabas.security.quotas import ClientQuotas
from barnabas.share import ShareEnvironment
from barnabas.transactions import ProducerIds

T = TypeVar("T")

FLUSH_THREADS = 4
DISK_THREADS = 4
LOGIN_THREADS = 4  # for authentication steps that block or are CPU-bound


class BrokerParts:
    """Components of a broker. All of them belong to the event loop they are created on."""

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
        self.registry_address = ""
        """Of the schema registry next to this broker, for clients (DescribeCluster)."""
        self.is_alone = not config["zookeeper.connect"] if cluster is None else cluster.is_alone
        self.image = self._image_before = EMPTY_IMAGE
        self._leaving: asyncio.Future[None] | None = None
        self.on_metadata_failed: Callable[[], None] = lambda: None
        """Called when the metadata cannot be followed any further. The process should exit and be restarted."""
        self._configs_in_use = EMPTY_IMAGE.configs
        self._must_use_config = False
        self.loop = asyncio.get_running_loop()
        self.timers = TimerQueues(self.loop)
        self.call_soon = call_soon_of(self.loop)
        self.metrics = Registry()
        self.topic_metrics = TopicMetrics(self.metrics)
        self._assemble_requests(config)
        self._assemble_logs(config)
        self._assemble_cluster(config, cluster)
        self._assemble_replication(config)
        self._assemble_coordinators(config)

    def _assemble_requests(self, config: BrokerConfig) -> None:
        between_brokers = PLAINTEXT if self.is_alone else peer_security(config)
        own = InterBrokerNames() if self.is_alone else own_names(config)
        self.authorizer = authorizer_from(config, own.principals)
        names = BrokerNames(config, own, self.authorizer)
        self.audit = audit_from(config, self.clock)
        self.dispatcher = dispatcher_from(
            config, self, self.metrics, self.authorizer, self.audit, names.is_authenticated_broker
        )
        self.quotas = ClientQuotas(quota_limits_from(config), self.clock.monotonic)
        addresses = PeerAddresses(self.node_id, config.inter_broker_listener_name, self._current_image)
        self.sockets: SocketServer = self.platform.sockets(
            config, self.dispatcher, addresses.hosts, is_alone=self.is_alone
        )
        self._access = AccessControl(self.authorizer, self.quotas, self.dispatcher, self.sockets)
        login_threads = self.platform.threads(LOGIN_THREADS, "barnabas-login")
        self.authentication = Authentication(
            config, self._current_image, self.clock, login_threads, self.audit
        )
        for listener in self.sockets.listeners:
            listener.is_broker = names.may_be_broker
        self.peers = self.platform.peers(
            self.node_id, self._answer, addresses.of, between_brokers, is_alone=self.is_alone
        )
        self.fetch_sessions = fetch_sessions_from(config, self.clock)
        self.telemetry = telemetry_from(config, self.clock)
        self.push_queue = PushQueue(config["telemetry.max.bytes"])
        self.fetch_max_bytes: int = config["fetch.max.bytes"]
        self.reads_from_followers: bool = config["replica.selector.class"] == RACK_AWARE
        self.refused_configs = 0  # config changes refused because of barnabas.configs.max.resources

    def _assemble_logs(self, config: BrokerConfig) -> None:
        self._disk = self.platform.threads(DISK_THREADS, "barnabas-disk")
        self._flushing = self.platform.threads(FLUSH_THREADS, "barnabas-flush")
        self.logs: LogManager = LogManager(
            self.files,
            config.log_dirs,
            self.clock,
            config,
            boot_id=self.platform.boot_id,
            state_of=self.platform.log_dir_state,
        )
        self.logs.on_truncation = self.sockets.log_truncated
        self._log_configs = LogConfigs(config)
        self.inspections = Inspections(self.metrics)
        self.flusher = Flusher(self._flushing, self._flush_failed)
        self.durability = Durability(self.flusher, config["barnabas.acks.all.fsync"])
        self.log_cleaner = LogCleaner(
            self.logs,
            self.flusher,
            self._disk,
            config=self._current_config,
            clock=self.clock,
            metrics=self.metrics,
        )

    def _assemble_cluster(self, config: BrokerConfig, cluster: ClusterConnection | None) -> None:
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
            lambda: found_cluster(config, self.logs, self._process.node),
            lambda: balance_seconds(self.config),
            healing_settings_from(config),
            partial(size_of_moves, self.peers),
            self.supported_features,
            is_alone=self.is_alone,
            spreads=config["barnabas.balance.processes"],
        )
        self._lifecycle = BrokerLifecycle(
            self._membership,
            self.metadata,
            self.listeners,
            self._current_config,
            self.supported_features,
            cluster.process,
        )
        self._process = cluster.process or NodeProcess(self.node_id, 1)
        self._identity = identity = self._lifecycle.identity
        self._shutdown = ControlledShutdown(
            self._membership,
            self.metadata,
            identity=identity,
            image=self._current_image,
            ask_controller=self._ask_controller,
        )
        self.producer_ids = ProducerIds(self._ask_controller, identity)
        self.delegation_tokens = DelegationTokens(config, self.controller, self.clock)

    def _assemble_replication(self, config: BrokerConfig) -> None:
        identity = self._identity
        self.isr_changes = IsrChanges(self._ask_controller, identity)
        self._view = BrokerView(
            self.clock,
            self.flusher,
            image=self._current_image,
            want_isr=self.isr_changes.want,
            expect_fetches=self.fetch_sessions.expect,
            on_appends_undone=self.follow_leadership,
        )
        self.replicas = ReplicaManager(
            self.node_id, self.logs, self._log_configs.of, self.topic_metrics.of, self._view
        )
        self.transfers = self.replicas.transfers = self._transfers()
        self.failed_dirs = FailedLogDirs(
            self.logs,
            self.replicas,
            image=self._current_image,
            identity=identity,
            ask_controller=None if self.is_alone else self._ask_controller,
            on_replicas_lost=self.follow_leadership,
        )
        self.tiering = tiering_from(
            self.platform,
            controller=self.controller,
            replicas=self.replicas,
            peers=self.peers,
            metrics=self.metrics,
            config=self._current_config,
            image=self._current_image,
            identity=identity,
            settle=self.settle,
            follow_leadership=self.follow_leadership,
        )
        self.page_cache = self.tiering.page_cache(self._disk, self.timers)
        self.moves = ReplicaMoves(
            self.logs, self.replicas, self.flusher, self.page_cache, self._disk, self.clock
        )
        self.leader_throttle = ReplicationQuota(self.clock.monotonic)
        self.follower_throttles = FollowerThrottles(self.clock.monotonic)
        self.mirrors = Mirrors(self._ask_controller, identity, self.clock, self.durability)
        self._replica_fetches = replica_fetches_from(config)
        self.fetchers = ReplicaFetchers(
            self.peers,
            identity,
            lambda: self._replica_fetches,
            self.clock,
            self.follower_throttles,
            self.platform.turn_limit,
            self.tiering.moved_to_tiers,
            self.tiering.waits_for_tiers,
        )
        self.replicas.on_applied = self._partition_applied
        self.replicas.may_lead = self.tiering.may_lead
        self.replicas.store_covers = self.tiering.store_covers

    def _transfers(self) -> PartitionTransfers | None:
        holds = self._cluster.holds
        if holds is None:
            return None
        return PartitionTransfers(
            self.node_id,
            holds,
            self.logs,
            self.flusher,
            self._disk.call,
            image=self._current_image,
            config=lambda topic: self._log_configs.of(self.image, topic),
            compaction_ended=self.log_cleaner.ended,
            on_open=self.settle,
        )

    def _assemble_coordinators(self, config: BrokerConfig) -> None:
        """Coordinators, audit log, monitoring and background tasks."""
        create = partial(create_topics, self)
        self.coordinators: Coordinators = Coordinators(
            self,
            ShareEnvironment(
                self.clock, self.timers, self.call_soon, self._disk, self._current_image, self._view
            ),
            self.replicas,
            self.peers,
            self.producer_ids,
            config=self._current_config,
            create_topics=create,
            is_alone=self.is_alone,
        )
        audit_topic = AuditTopic(
            self.peers, image=self._current_image, clock=self.clock, create_topics=create
        )
        self._audit_writer = AuditWriter(self.audit, config, self._disk, audit_topic)
        self.monitoring = self.platform.monitoring(self)
        self._housekeeping = PeriodicTask(
            self.platform.housekeeping_seconds, self.clock.monotonic, self.platform.turn_limit
        )

    # -- interfaces used by the components ----------------------------------------------------------

    @property
    def listeners(self) -> list[Listener]:
        return self.sockets.listeners

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{each.host or '127.0.0.1'}:{each.port}" for each in self.listeners)

    @property
    def broker_epoch(self) -> int:
        return self._lifecycle.broker_epoch

    @property
    def is_fenced(self) -> bool:
        return self._view.is_fenced

    @property
    def cluster_id(self) -> str:
        return self.image.cluster_id

    @property
    def refusal(self) -> str | None:
        """Reason for a refused re-registration after session loss."""
        return self._lifecycle.refusal

    @property
    def on_all_dirs_failed(self) -> Callable[[], None]:
        return self.failed_dirs.on_all_failed

    @on_all_dirs_failed.setter
    def on_all_dirs_failed(self, callback: Callable[[], None]) -> None:
        self.failed_dirs.on_all_failed = callback

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run a function that may block on disk I/O."""
        return await self._disk.call(work)

    def _in_background(self, work: Callable[[], None]) -> None:
        """Run cleanup work such as file deletion without waiting for it."""
        self._disk.run(work, lambda error: None)

    def _answer(self, message: Any) -> Awaitable[Any]:
        return answer(self, message)

    def _ask_controller(self, message: Any) -> Awaitable[Any]:
        return to_controller(self, message)

    def _current_image(self) -> MetadataImage:
        return self.image

    def _current_config(self) -> BrokerConfig:
        return self.config

    def _expected(self, tp: TopicPartition, topic_id: Uuid | None) -> LogConfig | None:
        """The config of a log on disk that this process serves, or is to serve; None for a stray."""
        brokers = represented(self.image, self.node_id, self._process)
        return self._log_configs.expected(self.image, brokers, tp, topic_id)

    def _flush_failed(self, log: Log, error: Exception) -> None:
        self.failed_dirs.flush_failed(log, error)

    def follow_leadership(self) -> None:
        """Update the coordinators after a change of leadership or fencing."""
        self.coordinators.follow()

    def settle(self, tp: TopicPartition) -> None:
        """Retry a partition after the obstacle to its leadership was removed."""
        self.replicas.settle(tp, self._current_image)
        self.failed_dirs.report()
        self.follow_leadership()

    def _partition_applied(self, partition: Partition) -> None:
        self.fetchers.follow(partition)
        self.tiering.follow(partition)
        self.mirrors.follow(partition)
