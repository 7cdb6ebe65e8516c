"""Brokers without sockets and threads, and the machines they run on."""

from __future__ import annotations

import asyncio
import errno
import random
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

from barnabas.broker.broker import Broker
from barnabas.broker.monitoring import MonitoringNeeds
from barnabas.broker.platform import Platform
from barnabas.broker.tiering.tiering import Tiering
from barnabas.client.security.settings import ClientSecurity
from barnabas.cluster.deltas import Delta
from barnabas.cluster.image import MetadataImage
from barnabas.cluster.peers import Answer, Locate, Peers
from barnabas.common.clock import Clock, TurnLimit
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.config.broker import BrokerConfig
from barnabas.log import names
from barnabas.log.checkpoints import (
    LOG_STARTS,
    RECOVERY_POINTS,
    decode_offsets,
    encode_offsets,
    read_if_exists,
)
from barnabas.network.memory_pool import MemoryPool
from barnabas.network.tls_listeners import TlsListeners
from barnabas.testing.files import FaultyFileSystem
from barnabas.testing.in_memory_cluster import MemoryCluster, MemorySession
from barnabas.tiering.stores.store import ObjectStore
from barnabas.tiering.writing.pacing import Step
from simulation.loop import Process, VirtualClock, VirtualLoop
from simulation.network import Network, SimulatedPeers
from simulation.tiers.bucket import Bucket, StoreLink
from simulation.tiers.traps import Traps

T = TypeVar("T")

SESSION_TIMEOUT = 0.8
LOG_DIRS = ("/data/one", "/data/two")
SLOWER = 20  # latency of a slow disk, as a multiple of the network delay
SETTINGS = {
    "min.insync.replicas": "2",  # with 1, losing one machine may lose acknowledged records, as with Kafka
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "replica.fetch.backoff.ms": "50",
    "replica.fetch.wait.max.ms": "300",
    "replica.lag.time.max.ms": "1000",
    "leader.imbalance.check.interval.seconds": "2",
    "controlled.shutdown.enable": "true",
}


class KnownConfig(BrokerConfig):
    """Caches the few distinct dynamic configurations that the brokers of all scenarios use."""

    __slots__ = ("_known",)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._known: dict[tuple[frozenset[tuple[str, str]], ...], BrokerConfig] = {}

    def with_dynamic(self, per_broker: Mapping[str, str], cluster_wide: Mapping[str, str]) -> BrokerConfig:
        changes = frozenset(per_broker.items()), frozenset(cluster_wide.items())
        if changes not in self._known:
            self._known[changes] = super().with_dynamic(per_broker, cluster_wide)
        return self._known[changes]


TIERED_SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "barnabas.remote.storage.url": "file:///simulated",
    "barnabas.remote.cache.bytes": "2000",  # a few segments, so that eviction and re-reads happen
    "barnabas.remote.delete.delay.ms": "100",
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "500",
}


class Variant(NamedTuple):
    """Broker settings that vary between scenarios."""

    internal_replicas: int
    """With one replica, log dirs are slow and acks=all does not wait for an fsync: the coordinator learns that a record
    is durable in the same loop iteration in which the disk write completes."""
    piece_bytes: int
    """Bytes a follower appends per step: 1 appends batch by batch, larger values append several batches at once."""

    @property
    def settings(self) -> dict[str, str]:
        return {"barnabas.acks.all.fsync": "auto" if self.internal_replicas > 1 else "never"}


def draw_variant(rng: random.Random) -> Variant:
    return Variant(rng.choice((3, 3, 1)), rng.choice((1, 300, 1 << 20)))


@cache
def config_of(number: int, variant: Variant, *, tiered: bool = False) -> BrokerConfig:
    own = {"node.id": str(number), "barnabas.host": f"machine-{number}", "log.dirs": ",".join(LOG_DIRS)}
    of_all = SETTINGS | variant.settings | (TIERED_SETTINGS if tiered else {})
    return KnownConfig.load(of_all | own | {"listeners": "PLAINTEXT://127.0.0.1:0"})


class _NoThreads:
    """Runs thread work synchronously; completion is delivered in a later loop iteration, as with real threads."""

    def __init__(self, delay: Callable[[], float]) -> None:
        self._delay = delay

    def run(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        failure: OSError | None = None
        try:
            work()
        except OSError as error:
            failure = error
        except KafkaError as error:
            failure = OSError(str(error))  # same as ThreadBackground
        asyncio.get_running_loop().call_later(self._delay(), lambda: done(failure))

    async def call(self, work: Callable[[], T]) -> T:
        result = work()
        await asyncio.sleep(self._delay())
        return result

    def close(self, *, drop_waiting: bool = False) -> None:
        """Nothing to close."""


class _SlowThread(_NoThreads):
    """Runs the work after a delay: pending writes of a slow disk are lost if the process dies first."""

    def run(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        asyncio.get_running_loop().call_later(self._delay() * SLOWER, super().run, work, done)


class _NoSockets:
    """Replaces the socket server: requests arrive through the simulated network."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []
        self.connections: list[Any] = []
        self.memory = MemoryPool(0)
        self.tls = TlsListeners()

    def open(self) -> None: ...
    def close(self) -> None: ...
    async def start(self) -> None: ...
    async def turn_away(self, timeout_seconds: float) -> None: ...
    async def stop(self, timeout_seconds: float = 0.0) -> None: ...
    def use_limits(self, limits: Any) -> None: ...
    def use_address_quotas(self, quotas: Any) -> None: ...
    def log_truncated(self, folder: str) -> None: ...


class _NoMonitoring:
    """Replaces monitoring: nothing reads the metrics, and real CPU time is meaningless in virtual time."""

    is_serving = False

    async def start(self, address: str = "") -> None: ...
    async def stop(self) -> None: ...
    def follow(self, before: MetadataImage, deltas: list[Delta]) -> None: ...


class SimulatedPlatform(Platform):
    applied_at_once = 1  # maximizes the number of possible interleavings
    probe_rounds = 1

    def __init__(
        self,
        files: FaultyFileSystem,
        clock: Clock,
        network: Network,
        boot_id: str,
        variant: Variant,
        store: StoreLink | None = None,
    ) -> None:
        super().__init__(files, clock)
        self.variant = variant
        self.turn_limit = TurnLimit(steps=1, piece_bytes=variant.piece_bytes)
        self._network = network
        self._boot_id = boot_id
        self.store = store
        if store is not None:
            self.housekeeping_seconds = 0.2

    def boot_id(self) -> str:
        return self._boot_id

    def threads(self, count: int, name: str) -> Any:
        kind = _SlowThread if name.startswith("barnabas-write") else _NoThreads
        return kind(self._network.delay)

    def sockets(self, *arguments: Any, **named: Any) -> Any:
        return _NoSockets()

    def peers(
        self, node_id: int, answer: Answer, locate: Locate, security: ClientSecurity, *, is_alone: bool
    ) -> Peers:
        return SimulatedPeers(self._network, node_id, answer)

    def monitoring(self, broker: MonitoringNeeds) -> Any:
        return _NoMonitoring()

    def object_store(self, url: str, options: Mapping[str, str]) -> ObjectStore:
        assert self.store is not None
        return self.store


class SimulatedBroker(Broker):
    platform: SimulatedPlatform

    def __init__(
        self, number: int, platform: SimulatedPlatform, session: MemorySession, process: Process
    ) -> None:
        self.process = process
        config = config_of(number, platform.variant, tiered=platform.store is not None)
        super().__init__(config, platform=platform, cluster=session.connection)


class Tiers:
    """State shared by the machines of a tiered cluster."""

    def __init__(self, seed: int, network: Network) -> None:
        self.bucket = Bucket(seed, network)
        self.traps = Traps()
        self.starts: Counter[int] = Counter()
        """Highest log start offset observed on any replica, by partition."""


class Machine:
    """A computer with a disk and at most one running broker. Restarting the machine changes the boot id."""

    def __init__(
        self,
        number: int,
        cluster: MemoryCluster,
        network: Network,
        loop: VirtualLoop,
        rng: random.Random,
        variant: Variant,
        tiers: Tiers | None = None,
    ) -> None:
        self.number = number
        self._variant = variant
        self._tiers = tiers
        self.disk = FaultyFileSystem()
        self.broker: SimulatedBroker | None = None
        self.session: MemorySession | None = None
        self.is_stopped = False
        self.lost_data = False
        """True after a power failure or the loss of a folder: the machine may lack records that it had acknowledged."""
        self._boot = 1
        self._cluster = cluster
        self._network = network
        self._loop = loop
        self._clock = VirtualClock(loop)
        self._rng = rng
        self._starting: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        return self.broker is not None

    @property
    def serves(self) -> bool:
        return self.server is not None

    @property
    def server(self) -> SimulatedBroker | None:
        """The broker that serves requests, including one that is shutting down."""
        return self._network.servers.get(self.number)

    def start(self) -> None:
        """Start a broker in the background; startup may wait for a controller indefinitely."""
        process = Process()
        process.run(self._start_as, process)

    def _start_as(self, process: Process) -> None:
        session = self.session = self._cluster.connect(self.number)
        store = None if self._tiers is None else self._tiers.bucket.link(self.number)
        platform = SimulatedPlatform(
            self.disk, self._clock, self._network, f"boot {self._boot}", self._variant, store
        )
        broker = SimulatedBroker(self.number, platform, session, process)
        if self._tiers is not None and isinstance(broker.tiering, Tiering):
            broker.tiering.at = partial(self._at_step, self._tiers.traps, broker)
        broker.logs.closing_threads = 1  # thread scheduling would not be deterministic
        self.broker = broker
        self._starting = asyncio.ensure_future(self._start(broker))

    def _at_step(self, traps: Traps, broker: SimulatedBroker, step: Step) -> None:
        """Trigger traps only for the current broker, not for one that is stopping or dead."""
        if self.broker is broker:
            traps.at(self.number, step)

    async def _start(self, broker: SimulatedBroker) -> None:
        await broker.start()
        if self.broker is broker:
            self._network.servers[self.number] = broker
            if self._variant.internal_replicas == 1:
                for folder in LOG_DIRS:
                    self.slow_down(folder)

    def pause(self) -> None:
        """Suspend the process, as SIGSTOP does: other brokers consider it dead."""
        assert self.broker is not None
        self.is_stopped = True
        self._loop.stop_process(self.broker.process)
        if self.session is not None:
            self.session.freeze()

    def resume(self) -> None:
        """Resume a suspended process, which has not yet seen any events of the meantime."""
        if self.is_stopped and self.broker is not None:
            self.is_stopped = False
            self._loop.continue_process(self.broker.process)
            if self.session is not None:
                self.session.thaw()

    def move_to_dir(self, partition: TopicPartition, folder: str) -> None:
        """Ask the broker to move its replica to another log dir; raise KafkaError if it cannot."""
        assert self.broker is not None
        self.broker.process.run(self.broker.moves.move, partition, folder)

    def lose_folder(self, partition: TopicPartition) -> bool:
        """Delete the folder of a partition, as by operator error; return True if deleted. Requires a checkpoint that
        proves the partition had records; otherwise the loss is indistinguishable from a new partition."""
        for folder in LOG_DIRS:
            noted, start = (
                decode_offsets(read_if_exists(self.disk, f"{folder}/{name}") or encode_offsets({}))
                for name in (RECOVERY_POINTS, LOG_STARTS)
            )
            path = f"{folder}/{partition}"
            if self.disk.exists(path) and noted.get(partition, 0) > start.get(partition, 0):
                self.disk.remove_tree(path)
                self.lost_data = True
                return True
        return False

    def slow_down(self, folder: str, failing_append: int = 0) -> None:
        """Make a log dir slow, and fail its `failing_append`-th append with ENOSPC (0: none fails)."""
        assert self.broker is not None
        for log_dir in self.broker.logs.dirs:
            if log_dir.folder == folder:
                self.broker.process.run(log_dir.disk.write_in_thread)
        if failing_append:
            self.disk.fail_at(failing_append, OSError(errno.ENOSPC, "no room"), "append", suffix=names.LOG)

    @property
    def moves_replicas(self) -> bool:
        return self.broker is not None and any(self.broker.logs.moves)

    async def kill(self, *, power: bool = False) -> None:
        """Kill the process; with `power`, unsynced data is lost too."""
        broker = self.die(power=power)
        await self.bury(broker)

    def die(self, *, power: bool = False) -> SimulatedBroker | None:
        """Kill the process immediately: anything it still does has no effect. Pass the result to `bury`."""
        broker, self.broker = self.broker, None
        session, self.session = self.session, None
        self._network.disconnect(self.number)
        if session is not None:
            session.vanish()
        # Later writes of the dead process go to a disk image that is never read.
        self.disk = self.disk.crash(lose_unsynced=power, torn=self._rng if power else None)
        if power:
            self._boot += 1
            self.lost_data = True
        if broker is not None:
            self.is_stopped = False
            self._loop.continue_process(broker.process)
            if (store := broker.platform.store) is not None:
                store.is_dead = True
        return broker

    async def bury(self, broker: SimulatedBroker | None) -> None:
        """Clean up the tasks of a dead process."""
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()  # start() aborts the broker when cancelled
        elif broker is not None:
            await broker.abort()

    async def stop(self) -> None:
        """Shut down cleanly, as on SIGTERM."""
        broker, self.broker = self.broker, None
        if broker is not None:
            await broker.stop()
            self._network.disconnect(self.number)
            self.disk = self.disk.crash(lose_unsynced=False)
