"""Remote logs of a broker: every partition is readable, and every led partition has a writer.

    start -> probe -> writers claim their manifests -> copy and expire until the broker stops or the leader changes

If the store is unavailable, the broker keeps running: segments stay on disk, and the probe is repeated until the store
answers. A store that fails the probe is never written to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, NamedTuple

from barnabas.broker.platform import Platform
from barnabas.broker.tiering.cluster_snapshots import StateRecorder
from barnabas.broker.tiering.deletions import RemoteDeletions
from barnabas.broker.tiering.followers import TieredFollowers
from barnabas.broker.tiering.leader_log import (
    CompactedLeaderLog,
    ManifestSegments,
    TieredLeaderLog,
    take_back,
)
from barnabas.broker.tiering.monitoring import TieredPartition, TieringMetrics
from barnabas.broker.tiering.no_tiering import end_tiering, log_recovering
from barnabas.broker.tiering.restored_partitions import MissingLogs, RestoredPartitions
from barnabas.broker.tiering.settings import (
    TieringSettings,
    copying_limits,
    remote_limits,
    writer_settings,
)
from barnabas.broker.tiering.status import TieringProblem, describe_broker, describe_partition
from barnabas.cluster import Peers
from barnabas.cluster.deltas import ConfigsChanged, Delta
from barnabas.cluster.image import NO_LEADER, MetadataImage
from barnabas.common.clock import Timers
from barnabas.common.safe_logging import safe_logger
from barnabas.common.threads import ThreadBackground
from barnabas.common.types import TopicPartition, Uuid
from barnabas.config.broker import BrokerConfig
from barnabas.controller import Controller
from barnabas.groups import GroupCoordinator
from barnabas.log import Log
from barnabas.log.tiering import forget, is_unfinished, stays_whole
from barnabas.metrics import Registry
from barnabas.protocol.internal_topics import INTERNAL_TOPICS
from barnabas.protocol.messages.tiers import BrokerTiers, PartitionTier
from barnabas.replication import (
    BackgroundThread,
    BrokerIdentity,
    ColdReads,
    Partition,
    ReplicaManager,
    TieredReads,
)
from barnabas.tiering.objects import ManifestWriter, PartitionFolder, read_manifest
from barnabas.tiering.reading import (
    Bootstrap,
    ChunkCache,
    ChunkFiles,
    ReadingParts,
    RemoteIndexCache,
    RemoteLog,
    StoreReader,
)
from barnabas.tiering.restoring import SavedGroupState, read_group_state
from barnabas.tiering.stores import ObjectStore, ReadQuota, StoreError
from barnabas.tiering.stores.probe import ROUNDS, UnsoundStoreError, probe
from barnabas.tiering.writing import At, RemoteWriter, StoreBackoff, UploadLimiter, nowhere

CACHE_FOLDER = "barnabas-remote-cache"
PROBE_SECONDS = 10.0
"""Timeout of the probe during startup."""
THREADS = 4
"""Threads for local disk I/O of uploads and downloads."""

logger = safe_logger(__name__)


class LedPartition(NamedTuple):
    """A partition led by this broker, with its remote writer."""

    leader_epoch: int
    is_whole: bool  # True for a compacted log
    writer: RemoteWriter
    task: asyncio.Task[None]


class Tiering:
    """Gives each partition its remote log. Not thread-safe: used on the event loop only."""

    def __init__(
        self,
        store: ObjectStore,
        threads: ThreadBackground,
        settings: TieringSettings,
        platform: Platform,
        *,
        controller: Controller,
        replicas: ReplicaManager,
        peers: Peers,
        metrics: Registry,
        config: Callable[[], BrokerConfig],
        image: Callable[[], MetadataImage],
        identity: Callable[[], BrokerIdentity],
        settle: Callable[[TopicPartition], None],
        follow_leadership: Callable[[], None],
    ) -> None:
        clock = self._clock = platform.clock
        self._replicas = replicas
        self._config = config
        self._image = image
        self._identity = identity
        self._follow_leadership = follow_leadership
        self._probe_rounds = platform.probe_rounds or ROUNDS
        self.at: At = nowhere
        """Called at each step of every writer; the simulator injects crashes here."""
        self._threads = threads
        self.store = store
        self.reader = StoreReader(store, clock, settings.reader_threads)
        folder = f"{config().log_dirs[0]}/{CACHE_FOLDER}"
        self._files = ChunkFiles(platform.files, folder)
        self.chunks = ChunkCache(
            self.reader.get_range,
            self._files,
            threads,
            limit=settings.cache_bytes,
            max_downloads=settings.reader_threads,
            quota=ReadQuota(clock.monotonic, config()["remote.log.manager.fetch.max.bytes.per.second"]),
        )
        self.indexes = RemoteIndexCache(self.reader, threads)
        self._parts = ReadingParts(self.reader, self.indexes, self.chunks, threads, clock)
        self._pacer = UploadLimiter(clock.monotonic, *copying_limits(config()))
        self.remote: dict[TopicPartition, tuple[Log, RemoteLog]] = {}
        self.led: dict[TopicPartition, LedPartition] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._reads: TieredReads | None = None
        self._followers = TieredFollowers(peers, config().node_id, config, self._remote_of)
        self._deletions = RemoteDeletions(store, controller, image, clock, self._writers_ended)
        self._snapshots = StateRecorder(store, controller, replicas, threads, config, clock)
        self.moved_to_tiers = self._followers.moved_to_tiers
        self.waits_for_tiers = self._followers.waits_for_tiers
        self._beginnings = RestoredPartitions(
            image, clock, self._bootstrap, self._take_back, self._group_state, self._begun
        )
        self.may_lead = self._beginnings.may_lead
        self._missing = MissingLogs(self._tiered_end, settle)
        self.store_covers = self._missing.store_covers
        self._is_sound = self._is_stopped = False
        self.problem = TieringProblem()
        TieringMetrics(metrics, self._parts, self._pacer, lambda: self._reads, self._led_parts)

    def _led_parts(self) -> Iterator[TieredPartition]:
        for tp, led_partition in self.led.items():
            yield TieredPartition(tp.topic, self.remote[tp][0], led_partition.writer)

    def describe(self, log: Log) -> PartitionTier:
        led_partition = self.led.get(log.topic_partition)
        return describe_partition(
            log, led_partition.writer if led_partition is not None else None, self.problem
        )

    def describe_broker(self) -> BrokerTiers:
        return describe_broker(self._parts, self._pacer, self.problem)

    def page_cache(self, background: BackgroundThread, timers: Timers) -> ColdReads:
        self._reads = TieredReads(background, timers, lambda: remote_limits(self._config()))
        return self._reads

    def use_config(self, config: BrokerConfig) -> None:
        self._pacer.allow(*copying_limits(config))
        if self.chunks.max_downloads != (limit := config["remote.log.reader.threads"]):
            self.chunks.max_downloads = limit
            self.reader.allow(limit)
        self.chunks.quota.rate = config["remote.log.manager.fetch.max.bytes.per.second"]

    # -- start and stop -----------------------------------------------------------------------------

    async def start(self, groups: GroupCoordinator) -> None:
        """Probe the store. Raises UnsoundStoreError if it must not be used."""
        await self._threads.call(self._files.empty)
        self._run(self._followers.fetch_tiered_ends(lambda: list(self._replicas)))
        self._run(self._snapshots.run(groups, lambda: self._is_sound))
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await probe(self.store, self._probe_rounds)
        except UnsoundStoreError:
            raise
        except (StoreError, TimeoutError) as error:
            self._note_problem(str(error) or f"the object store did not respond within {PROBE_SECONDS:g} s")
            logger.warning("nothing is copied until the object store responds: %s", self.problem.text)
            self._run(self._probe_until_available())
        else:
            self._is_sound = True

    async def _probe_until_available(self) -> None:
        backoff = StoreBackoff()
        while not self._is_sound:
            await asyncio.sleep(backoff.after(StoreError(self.problem.text)))
            try:
                await probe(self.store, self._probe_rounds)
            except UnsoundStoreError as error:
                self._note_problem(error.message)
                logger.error("%s", error)
                return
            except StoreError as error:
                self._note_problem(error.message)
            else:
                self._is_sound = True
                self.problem.is_over()
        self._deletions.follow()
        for partition in list(self._replicas):
            self.follow(partition)

    def _note_problem(self, text: str) -> None:
        self.problem.say(text, self._clock.now_ms())

    async def stop(self) -> None:
        """Cancel uploads, which the next leader resumes. Later metadata changes are ignored."""
        self._is_stopped = True
        led_partition, self.led = self.led, {}
        await self._deletions.stop()
        tasks = [each.task for each in led_partition.values()] + list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._followers.stop()
        await self._beginnings.stop()
        await self._missing.stop()
        if self._reads is not None:
            await self._reads.close()
        for partition in self._replicas:
            partition.remote = None
        for _, remote in self.remote.values():
            await remote.close()
        self.remote.clear()
        await self.indexes.close()
        await self.chunks.close()
        await self.store.close()
        self._threads.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- metadata changes ---------------------------------------------------------------------------

    def follow(self, partition: Partition) -> None:
        """Follow a partition that changed its state or settings, or was removed from this broker."""
        if self._is_stopped:
            return
        tp, log = partition.topic_partition, partition.log
        if partition.is_retired or not log.config.remote_storage_enable:
            self._stop_writing(tp)
            self._forget(tp)
            partition.remote = None
            end_tiering(partition)
            return
        remote = self._remote_of(partition)
        led_partition = self.led.get(tp)
        leads = partition.is_leader or partition.is_recovering
        if led_partition is not None and leads and _is_the_same(led_partition, partition):
            led_partition.writer.wake()
            return
        self._stop_writing(tp)
        if self._follows(partition) and is_unfinished(log):
            forget(log)  # the leader sends the remaining records
        remote.manifest.use(None)  # valid for one leader epoch
        log.use_remote(None)
        if partition.is_recovering:
            log_recovering(partition)
        if leads and self._is_sound:
            self._start_writing(partition, remote)

    def _follows(self, partition: Partition) -> bool:
        leader = partition.state.leader if partition.state is not None else NO_LEADER
        return leader not in (NO_LEADER, self._identity().broker_id)

    def applied(self, deltas: Iterable[Delta]) -> None:
        """Apply topic config changes. Leader changes are handled by `follow`."""
        if self._is_sound and not self._is_stopped:
            self._deletions.follow()
        for delta in deltas:
            if isinstance(delta, ConfigsChanged):
                for partition in list(self._replicas):
                    self.follow(partition)
                return

    def wake(self) -> None:
        """Wake all writers: segments may have been sealed, flushed or expired."""
        for led_partition in self.led.values():
            led_partition.writer.wake()

    def _remote_of(self, partition: Partition) -> RemoteLog:
        tp, log = partition.topic_partition, partition.log
        known = self.remote.get(tp)
        if known is None or known[0] is not log:
            self._forget(tp)
            known = self.remote[tp] = log, RemoteLog(self.folder_of(partition), self._parts)
        partition.remote = known[1]
        return known[1]

    async def _bootstrap(self, partition: Partition) -> Bootstrap:
        return await self._remote_of(partition).bootstrap()

    async def _take_back(self, partition: Partition, leader_epoch: int, is_ours: Callable[[], bool]) -> None:
        remote = self._remote_of(partition)
        await take_back(partition.log, remote, leader_epoch, self._clock, is_ours)

    def _begun(self, partition: Partition) -> None:
        self._replicas.settle(partition.topic_partition, self._image)
        if partition.topic in INTERNAL_TOPICS:
            self._follow_leadership()

    async def _tiered_end(self, tp: TopicPartition, topic_id: Uuid) -> int:
        folder = PartitionFolder(self._image().cluster_id, tp.topic, topic_id, tp.partition)
        seen = await read_manifest(self.store, folder)
        return seen.manifest.tiered_end if seen is not None else 0

    async def _group_state(self, index: int) -> SavedGroupState | None:
        image = self._image()
        return await read_group_state(self.store, image.cluster_id, image.incarnation, index)

    def folder_of(self, partition: Partition) -> PartitionFolder:
        return PartitionFolder(self._image().cluster_id, partition.topic, partition.topic_id, partition.index)

    def _forget(self, tp: TopicPartition) -> None:
        known = self.remote.pop(tp, None)
        if known is not None:
            self._run(known[1].close())

    # -- writing ------------------------------------------------------------------------------------

    def _start_writing(self, partition: Partition, remote: RemoteLog) -> None:
        clock, log = self._clock, partition.log
        node_id, broker_epoch = self._identity()
        name = f"broker {node_id} of epoch {broker_epoch}"
        is_whole = stays_whole(log)
        compacted_log = CompactedLeaderLog(partition, remote, clock, self._threads.call) if is_whole else None
        writer = RemoteWriter(
            self.store,
            remote.folder,
            ManifestWriter(self._image().incarnation, partition.leader_epoch, name),
            compacted_log or TieredLeaderLog(partition, remote, clock, self._threads.call),
            lambda: writer_settings(self._config(), log.config),
            self._pacer,
            self._threads.call,
            clock,
            at=self.at,
            counters=partition.counters,
            compacted_log=compacted_log,
        )
        task = asyncio.create_task(self._write(writer, partition))
        self.led[partition.topic_partition] = LedPartition(partition.leader_epoch, is_whole, writer, task)
        remote.manifest.follow(lambda: writer.manifest)
        if not is_whole:
            log.use_remote(ManifestSegments(lambda: writer.manifest))

    async def _write(self, writer: RemoteWriter, partition: Partition) -> None:
        try:
            await writer.run()
        except Exception:
            logger.exception("the remote writer of %s has stopped", partition.topic_partition)

    def _stop_writing(self, tp: TopicPartition) -> None:
        led_partition = self.led.pop(tp, None)
        if led_partition is not None:
            led_partition.task.cancel()
            self._ending.add(led_partition.task)
            led_partition.task.add_done_callback(self._ending.discard)

    async def _writers_ended(self) -> None:
        """Wait for cancelled writers, so that none of their uploads is still in flight."""
        await asyncio.gather(*self._ending, return_exceptions=True)


def _is_the_same(led_partition: LedPartition, partition: Partition) -> bool:
    """True if the writer still matches the leader epoch and the cleanup policy."""
    return led_partition.leader_epoch == partition.leader_epoch and led_partition.is_whole == stays_whole(
        partition.log
    )
