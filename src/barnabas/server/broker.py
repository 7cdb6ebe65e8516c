"""A broker put together: what it consists of, how it starts, what it does by the clock, how it stops."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, TypeVar

from barnabas.clock import Clock, SystemClock, TurnLimit
from barnabas.cluster.adoption import adopt
from barnabas.cluster.deltas import Delta
from barnabas.cluster.following import MetadataFollower
from barnabas.cluster.image import EMPTY_IMAGE, MetadataImage, Resource, ResourceType
from barnabas.cluster.levels import METADATA_VERSION
from barnabas.cluster.membership import Coordination, LocalMembership
from barnabas.cluster.peers import LocalPeers, NetworkPeers, Peers
from barnabas.cluster.store import METADATA_FOLDER, FileMetadataStore
from barnabas.config.broker import BrokerConfig
from barnabas.config.replication_settings import RACK_AWARE
from barnabas.config.topic import LogConfig
from barnabas.controller.controller import Controller
from barnabas.errors import ErrorCode, KafkaError
from barnabas.files import FileSystem, LocalFileSystem
from barnabas.log.log import Log
from barnabas.log.manager import LogManager
from barnabas.log.recovery import Stop
from barnabas.log_lines import line_limit, safe_logger
from barnabas.metrics.registry import Registry
from barnabas.metrics.requests import RequestMetrics
from barnabas.metrics.topics import TopicMetrics
from barnabas.protocol.messages.replication import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.replication.fetcher import FetchSettings, Identity
from barnabas.replication.fetchers import ReplicaFetchers
from barnabas.replication.flusher import Flusher
from barnabas.replication.isr import IsrChanges
from barnabas.replication.manager import ReplicaManager
from barnabas.replication.partition import Partition
from barnabas.replication.throttle import Throttle
from barnabas.server.background import ThreadBackground
from barnabas.server.broker_addresses import BrokerAddresses
from barnabas.server.cleaning import Cleaning
from barnabas.server.cluster_view import BrokerView
from barnabas.server.connection import Connection
from barnabas.server.control import ClusterControl
from barnabas.server.coordinators import Coordinators
from barnabas.server.dispatch import Dispatcher
from barnabas.server.features import SUPPORTED_FEATURES, Levels
from barnabas.server.fetch_sessions import FetchSessions
from barnabas.server.forwarding import to_controller
from barnabas.server.from_config import listeners_from, policy_from, replica_fetches_from
from barnabas.server.handing_over import hand_over
from barnabas.server.handlers import HANDLERS
from barnabas.server.heavy import budget_from
from barnabas.server.inspecting import Inspections
from barnabas.server.limits import limits_from
from barnabas.server.listener import Listener
from barnabas.server.local_requests import answer
from barnabas.server.log_configs import LogConfigs
from barnabas.server.lost_replicas import LostReplicas
from barnabas.server.monitoring import Monitoring
from barnabas.server.moving import ReplicaMoves
from barnabas.server.page_cache import PageCache
from barnabas.server.producer_ids import ProducerIds
from barnabas.server.registration import Registration
from barnabas.server.rounds import Rounds
from barnabas.server.socket_server import SocketServer
from barnabas.types import TopicPartition, Uuid, new_uuid, uuid_to_text

T = TypeVar("T")
logger = safe_logger(__name__)

FLUSH_THREADS = 4
DISK_THREADS = 4
HOUSEKEEPING_SECONDS = 1.0
# How long a stopping broker waits for what is in flight, and how long when nobody has taken over: what waits for other
# replicas then may wait in vain.
IN_FLIGHT_SECONDS = 10.0
LEFT_ALONE_SECONDS = 1.0
CREATED_ON_THE_LOOP = 2  # partitions; the files of a larger topic are made in a thread


class Broker:
    """Handlers get this object. Everything here belongs to one event loop, the one that ran `start`."""

    supported_features: ClassVar[Levels] = SUPPORTED_FEATURES
    applied_at_once = 32  # partitions that take over a change of the metadata before requests get their turn
    turn_limit: ClassVar[TurnLimit] = TurnLimit()  # of housekeeping, and of what leaders send

    def __init__(
        self,
        config: BrokerConfig,
        *,
        files: FileSystem | None = None,
        clock: Clock | None = None,
        coordination: Coordination | None = None,
    ) -> None:
        self._coordination = coordination
        self._has_coordination = False
        self.is_alone = coordination is None and not config["zookeeper.connect"]
        self.is_fenced = False
        self.static_config = config
        self._dynamic: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
        self.config = config
        self.policy = policy_from(config, config)
        self.files = files or LocalFileSystem()
        self.clock = clock or SystemClock()
        self.node_id = config.node_id
        self.broker_epoch = -1
        self.image = EMPTY_IMAGE
        self.metrics = Registry()
        self.topic_metrics = TopicMetrics(self.metrics)
        self.inspections = Inspections(self.metrics)
        self.fetch_max_bytes: int = config["fetch.max.bytes"]
        self.fetch_sessions = FetchSessions(
            config["max.incremental.fetch.session.cache.slots"],
            self.clock,
            config["barnabas.fetch.session.max.partitions"],
        )
        self.refused_configs = 0  # changes beyond barnabas.configs.max.resources
        self.producer_ids = ProducerIds(self._allocate_producer_ids)
        self.dispatcher = Dispatcher(
            self,
            HANDLERS,
            RequestMetrics(self.metrics),
            slow_request_seconds=config["barnabas.slow.request.ms"] / 1000,
            budget=budget_from(config),
        )
        self.sockets = self._socket_server()
        self._log_configs = LogConfigs(config)
        self.logs = LogManager(self.files, config.log_dirs, self.clock, config)
        self.replicas = ReplicaManager(
            self.node_id, self.logs, self._log_configs.of, self.topic_metrics.of, BrokerView(self)
        )
        self.monitoring = self._monitoring()
        self.cleaning = Cleaning(self)
        self.moves = ReplicaMoves(self)
        self._fsync: str = config["barnabas.acks.all.fsync"]
        self._lost_replicas = LostReplicas(self)
        self.leader_throttle = Throttle(self.clock.monotonic)
        self.follower_throttle = Throttle(self.clock.monotonic)
        self._use_replication_settings()
        self._housekeeping = Rounds(
            self._keep_house, HOUSEKEEPING_SECONDS, self.clock.monotonic, self.turn_limit
        )
        self._left_dirs: set[str] = set()
        self.on_all_dirs_failed: Callable[[], None] = lambda: None
        """Told when no disk is left. Kafka ends its process then, for others to take over."""

    @property
    def listeners(self) -> list[Listener]:
        return self.sockets.listeners

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{listener.host or '127.0.0.1'}:{listener.port}" for listener in self.listeners)

    @property
    def cluster_id(self) -> str:
        return self.image.cluster_id

    # -- life ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Serve clients; after an error nothing is left open."""
        try:
            await self._start()
        except BaseException:
            self.sockets.close()
            if self._has_coordination:
                await self._leave_cluster()
            self.logs.close(clean=False)
            raise

    async def _leave_cluster(self) -> None:
        self._control.stop()
        self.metadata.stop()
        await self._membership.leave()

    async def _start(self) -> None:
        """Ports first (they are registered), then metadata, then logs; clients are let in last."""
        loop = asyncio.get_running_loop()
        self.timers = loop
        self.call_soon = loop.call_soon
        self._disk = self._threads(DISK_THREADS, "barnabas-disk")
        self.page_cache = PageCache(self._disk)
        self._flushing = self._threads(FLUSH_THREADS, "barnabas-flush")
        self.flusher = Flusher(self._flushing, self._flush_failed)
        self.inspections.start(self._threads(1, "barnabas-inspect"), self.sockets.memory)
        self.sockets.open()
        self.logs.lock()
        self.logs.use_background(self._in_background)
        await self._start_controller()
        # In a thread: after a crash it may take longer than a session lives without a sign of the loop.
        found = await self.in_thread(lambda: self.logs.load(self._expected_log))
        await self._registration.join(clean=Stop.CRASHED not in found.stops.values())
        self._tell_overruled_settings()
        self.logs.loss_is_told()
        self._start_replication()
        self.coordinators = Coordinators(self)
        self.coordinators.start()
        self.controller.on_commit.append(self._apply)
        self._lost_replicas.tell()
        self._registration.watch()
        await self.sockets.start()
        await self.monitoring.start(self.config["barnabas.metrics.listen"] or "")
        self._housekeeping.start()
        self.cleaning.start()
        self.moves.start()

    async def stop(self) -> None:
        """Finish what is in flight, flush, and mark every log dir clean."""
        patience = await self._hand_over()
        self._housekeeping.stop()
        await self.monitoring.stop()
        await self.cleaning.stop()
        await self.moves.stop()
        await self.sockets.stop(patience)
        self.coordinators.stop()
        self._stop_replication()
        self._control.stop()
        await self._membership.leave()
        await self.controller.stop()
        self.inspections.stop()
        self._flushing.close()
        self._disk.close()
        self.logs.broker_epoch = self.broker_epoch
        self.logs.close()

    @property
    def refusal(self) -> str | None:
        """Why the cluster does not let this broker in again after it has lost its session."""
        return self._registration.refusal

    async def _hand_over(self) -> float:
        """Let others take over; how long to wait then for what is in flight."""
        if self.is_alone or not self.config["controlled.shutdown.enable"]:
            return IN_FLIGHT_SECONDS
        return IN_FLIGHT_SECONDS if await hand_over(self, self._membership) else LEFT_ALONE_SECONDS

    async def abort(self) -> None:
        """End as a killed process does: nothing is handed over, answered, flushed or marked clean. For tests."""
        self._housekeeping.stop()
        self._control.stop()
        self.metadata.stop()
        self._stop_replication()
        self.coordinators.stop()
        await self.monitoring.stop()
        await self.cleaning.stop()
        await self.moves.stop()
        await self.sockets.stop(patience=0.0)
        self.inspections.stop()
        self._flushing.close()
        self._disk.close()
        self.logs.close(clean=False)

    async def _start_controller(self) -> None:
        """Follow the metadata, stand for election, and wait until there is a cluster."""
        store, self._membership = self._coordination or await self._coordinate()
        self.metadata = MetadataFollower(store)
        self.controller = Controller(store, self.node_id, self.metadata)
        self._control = ClusterControl(
            self.controller,
            self._membership,
            lambda: self.policy,
            self._found_cluster,
            self._balance_seconds,
            self.supported_features,
            is_alone=self.is_alone,
        )
        self._registration = Registration(self, self._membership)
        self._has_coordination = True
        await self.metadata.start()
        self._control.start()
        self.use(await self.metadata.until(lambda image: bool(image.cluster_id)))
        self.logs.claim(self.cluster_id, self.node_id)

    # What a simulated broker has in another form.

    def _socket_server(self) -> SocketServer:
        return SocketServer(
            listeners_from(self.config, is_alone=self.is_alone),
            self.dispatcher,
            limits_from(self.config),
            brokers=BrokerAddresses(self._other_hosts),
            brokers_listener=self.config.listener_of_brokers_alone,
        )

    def _other_hosts(self) -> Iterator[str]:
        """Where each of the other brokers listens for its peers."""
        for broker_id in self.image.brokers:
            address = self._address_of(broker_id) if broker_id != self.node_id else None
            if address is not None:
                yield address[0]

    def _monitoring(self) -> Monitoring:
        return Monitoring(self)

    def _threads(self, count: int, name: str) -> ThreadBackground:
        return ThreadBackground(asyncio.get_running_loop(), count, name)

    def _start_replication(self) -> None:
        """From here on partitions lead and follow; what the image says of them is taken over now."""
        self.peers = self._connect_peers()
        self.isr_changes = IsrChanges(lambda request: to_controller(self, request), self._identity)
        self.fetchers = ReplicaFetchers(
            self.peers,
            self._identity,
            self._fetch_settings,
            self.clock,
            self.follower_throttle,
            self.turn_limit,
        )
        self.replicas.on_applied = self.fetchers.follow
        self.replicas.load(self.image)

    def _stop_replication(self) -> None:
        self.fetchers.stop()
        self.isr_changes.stop()
        self._lost_replicas.stop()
        self._registration.stop()
        if isinstance(self.peers, NetworkPeers):
            self.peers.close()

    def _connect_peers(self) -> Peers:
        def locally(message: Any) -> Awaitable[Any]:
            return answer(self, message)

        if self.is_alone:
            return LocalPeers(self.node_id, locally)
        return NetworkPeers(self.node_id, locally, self._address_of)

    def _address_of(self, broker_id: int) -> tuple[str, int] | None:
        """Where another broker listens for its peers."""
        broker = self.image.brokers.get(broker_id)
        name = self.config.inter_broker_listener_name
        for endpoint in broker.endpoints if broker is not None else ():
            if endpoint.name == name:
                return endpoint.host, endpoint.port
        return None

    def _identity(self) -> Identity:
        return Identity(self.node_id, self.broker_epoch)

    def _fetch_settings(self) -> FetchSettings:
        return self._replica_fetches

    async def _coordinate(self) -> Coordination:
        if self.is_alone:
            return self._alone()
        from barnabas.cluster.zookeeper_coordination import connect  # not every installation has kazoo

        _, newest_level = self.supported_features[METADATA_VERSION]
        return await connect(self.config, self.logs.cluster_id, self.logs.folder_id, newest_level)

    def _alone(self) -> Coordination:
        folder = os.path.join(self.config.log_dirs[0], METADATA_FOLDER)
        store = FileMetadataStore(self.files, folder)
        return Coordination(store, LocalMembership(lambda: self.metadata.image))

    def _found_cluster(self) -> tuple[str, list[Delta]]:
        """The id of a new cluster, and what is in our folders already when it begins."""
        cluster_id = self.logs.cluster_id or self.config["barnabas.cluster.id"] or uuid_to_text(new_uuid())
        return cluster_id, adopt(self.files, self.config.log_dirs, self.node_id)

    def _balance_seconds(self) -> float | None:
        if not self.config["auto.leader.rebalance.enable"]:
            return None
        return float(self.config["leader.imbalance.check.interval.seconds"])

    # -- metadata -----------------------------------------------------------------------------------

    async def _apply(self, image: MetadataImage, deltas: list[Delta]) -> None:
        new = self.replicas.new_partitions(image, deltas)
        if len(new) > CREATED_ON_THE_LOOP:
            await self.in_thread(self.logs.prepare(new))
        before = self.image
        self.use(image)
        for count, _ in enumerate(self.replicas.apply(image, deltas), 1):
            if count % self.applied_at_once == 0:
                await asyncio.sleep(0)
        if self.replicas.is_awaiting_room:
            self._lost_replicas.tell()
        self.coordinators.applied(before, deltas)
        self.monitoring.follow(before, deltas)

    def use(self, image: MetadataImage) -> None:
        """Take over what the cluster says; its partitions come apart."""
        if image.configs is not self.image.configs:
            self.image = image
            self._use_dynamic_config()
        self.image = image

    def _use_dynamic_config(self) -> None:
        configs = self.image.configs
        dynamic = (
            configs.get(Resource(ResourceType.BROKER, str(self.node_id)), {}),
            configs.get(Resource(ResourceType.BROKER, ""), {}),
        )
        if dynamic == self._dynamic:
            return  # those of a topic have changed
        self._dynamic = dynamic
        self.config = self.static_config.with_dynamic(*dynamic)
        self.policy = policy_from(self.config, self.static_config.with_dynamic(dynamic[0], {}))
        self._log_configs.use(self.config)
        self._fsync = self.config["barnabas.acks.all.fsync"]
        self.fetch_max_bytes = self.config["fetch.max.bytes"]
        self._use_replication_settings()
        self.sockets.use_limits(limits_from(self.config))
        self.logs.use_config(self.config)
        self.dispatcher.use_budget(budget_from(self.config))
        self.dispatcher.slow_request_seconds = self.config["barnabas.slow.request.ms"] / 1000 or float("inf")

    def _tell_overruled_settings(self) -> None:
        for name, (ours, the_clusters) in self.config.overruled.items():
            logger.warning(
                "%s=%s of this broker's properties has no effect: the cluster has %s. To change that for all brokers: "
                "barnabas configs set broker default %s=%s",
                *(name, ours, the_clusters, name, ours),
            )

    def _use_replication_settings(self) -> None:
        self._replica_fetches = replica_fetches_from(self.config)
        self.leader_throttle.rate = self.config["leader.replication.throttled.rate"]
        self.follower_throttle.rate = self.config["follower.replication.throttled.rate"]
        self.moves.throttle.rate = self.config["replica.alter.log.dirs.io.max.bytes.per.second"]
        self.reads_from_followers = self.config["replica.selector.class"] == RACK_AWARE

    def _expected_log(self, place: TopicPartition, topic_id: Uuid | None) -> LogConfig | None:
        """The config of a log that belongs here; None for a folder of a topic that is not in the image."""
        topic = self.image.topics.get(place.topic)
        if topic is None or place.partition >= len(topic.partitions):
            return None
        if topic_id is not None and topic_id != topic.topic_id:
            return None
        if self.node_id not in topic.partitions[place.partition].replicas:
            return None  # it has moved away while we were not there
        return self._log_configs.of(self.image, place.topic)

    async def _allocate_producer_ids(self) -> range:
        request = AllocateProducerIdsRequest(broker_id=self.node_id, broker_epoch=self.broker_epoch)
        try:
            response: AllocateProducerIdsResponse = await to_controller(self, request)
            if response.error_code:
                raise KafkaError(ErrorCode(response.error_code))
        except KafkaError as error:
            # What Kafka answers: every client tries again.
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids can be had at the moment: {error}"
            ) from error
        return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)

    def endpoints_for(self, connection: Connection) -> list[tuple[int, str, int, str | None]]:
        """(id, host, port, rack) of every broker in service, as the client behind this connection reaches it."""
        listener = connection.listener
        found = []
        for broker in self.image.brokers.values():
            if broker.id == self.node_id:
                if self.is_fenced:
                    continue  # our image may be old: clients must look for the leaders elsewhere
                found.append((broker.id, *listener.advertised(connection), broker.rack))
            elif not broker.fenced:
                found += [
                    (broker.id, endpoint.host, endpoint.port, broker.rack)
                    for endpoint in broker.endpoints
                    if endpoint.name == listener.name
                ]
        return found

    # -- safety -------------------------------------------------------------------------------------

    def must_flush(self, partition: Partition) -> bool:
        """Must acks=all wait for the disk, because nothing but this machine holds the record?"""
        if self._fsync == "auto":
            return partition.is_only_here
        return self._fsync == "always"

    def is_safe(self, partition: Partition, offset: int) -> bool:
        """Is everything below `offset` as safe as acks=all promises?"""
        log = partition.log
        return log.high_watermark >= offset and (
            log.flushed_offset >= offset or not self.must_flush(partition)
        )

    def when_safe(self, partition: Partition, offset: int, callback: Callable[[ErrorCode], None]) -> None:
        """Call back when everything below `offset` is as safe as acks=all promises, or with what prevents it."""

        def committed(error: ErrorCode) -> None:
            if error or not self.must_flush(partition):
                callback(error)
            else:
                self.flusher.when_flushed(partition.log, offset, callback)

        partition.when_committed(offset, committed)

    def _flush_failed(self, log: Log, error: Exception) -> None:
        self.logs.take_offline(log, error if isinstance(error, OSError) else OSError(str(error)))
        self._leave_failed_dirs()

    def _leave_failed_dirs(self) -> None:
        """Serve nothing any more that lies in a log dir which failed; the other dirs go on."""
        failed = self.logs.offline_dirs
        for folder in failed.keys() - self._left_dirs:
            self._left_dirs.add(folder)
            self.replicas.take_offline(partial(_lies_in, folder), failed[folder])
            self.coordinators.follow()
            self._lost_replicas.tell()
            if len(failed) == len(self.logs.dirs):
                logger.critical("no log dir is left: this broker cannot go on")
                self.on_all_dirs_failed()

    # -- by the clock -------------------------------------------------------------------------------

    def _keep_house(self) -> Iterator[None]:
        for wanted in self.logs.housekeeping_steps(self.clock.now_ms()):
            yield
            for log in wanted:
                self.flusher.flush(log)
                yield
        line_limit.tell()
        self._leave_failed_dirs()
        self.inspections.load_if_wanted()
        is_settled = yield from self.replicas.try_again(lambda: self.image)
        if is_settled or self.coordinators.is_behind:
            self.coordinators.follow()
        if not self.is_alone:
            yield from self.replicas.review_isr(self.config["replica.lag.time.max.ms"] / 1000)

    def _in_background(self, work: Callable[[], None]) -> None:
        """Removing files and the like: nobody waits for it."""
        self._disk.run(work, lambda error: None)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run something that may wait for the disk."""
        return await self._disk.call(work)


def _lies_in(folder: str, log: Log) -> bool:
    return log.folder.startswith(folder + os.sep)
