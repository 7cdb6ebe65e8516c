"""All remote parts of a broker: each partition can be read, and each that it leads has a writer.

    start -> probe -> writers claim their manifests -> copy and expire until the broker stops or another leads

A store that does not answer stops nothing: it is probed again until it does, and meanwhile segments stay on the disk.
One that fails the probe is never written to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from barnabas.broker.tiers.deletions import RemoteDeletions
from barnabas.broker.tiers.followers import TieredFollowers
from barnabas.broker.tiers.led_log import LedLog, ManifestSegments
from barnabas.broker.tiers.monitoring import LedPart, TieringMetrics
from barnabas.broker.tiers.settings import (
    TieringSettings,
    copying_limits,
    remote_limits,
    tiering_settings,
    writer_settings,
)
from barnabas.clock import Clock, Timers
from barnabas.cluster.deltas import ConfigsChanged, Delta
from barnabas.cluster.image import MetadataImage
from barnabas.cluster.peers import Peers
from barnabas.config.broker import BrokerConfig
from barnabas.controller.controller import Controller
from barnabas.files import FileSystem
from barnabas.log.log import Log
from barnabas.log_lines import safe_logger
from barnabas.metrics.registry import Registry
from barnabas.replication.flusher import Background
from barnabas.replication.manager import ReplicaManager
from barnabas.replication.page_cache import PageCache
from barnabas.replication.partition import Partition
from barnabas.replication.remote_reads import RemoteReads
from barnabas.threads import ThreadBackground
from barnabas.tiering.objects.layout import PartitionFolder
from barnabas.tiering.objects.manifest import Writer
from barnabas.tiering.reading.chunk_cache import ChunkCache
from barnabas.tiering.reading.chunk_files import ChunkFiles
from barnabas.tiering.reading.remote_index_cache import RemoteIndexCache
from barnabas.tiering.reading.remote_log import ReadingParts, RemoteLog
from barnabas.tiering.reading.store_reader import StoreReader
from barnabas.tiering.stores.probe import ROUNDS, UnsoundStoreError, probe
from barnabas.tiering.stores.store import ObjectStore, StoreError
from barnabas.tiering.writing.named_steps import At, nowhere
from barnabas.tiering.writing.pacing import Backoff, Pacer
from barnabas.tiering.writing.remote_writer import RemoteWriter
from barnabas.types import TopicPartition

CACHE_FOLDER = "barnabas-remote-cache"
PROBE_SECONDS = 10.0
"""How long a start waits for the store."""
THREADS = 4
"""For what is read from and written to this disk on its way to and from the store."""
INCARNATION = 0
"""Of the cluster: raised by `barnabas cluster restore`."""

logger = safe_logger(__name__)


class Host(Protocol):
    """What is needed of the broker."""

    @property
    def clock(self) -> Clock: ...
    @property
    def config(self) -> BrokerConfig: ...
    @property
    def controller(self) -> Controller: ...
    @property
    def files(self) -> FileSystem: ...
    @property
    def image(self) -> MetadataImage: ...
    @property
    def metrics(self) -> Registry: ...
    @property
    def node_id(self) -> int: ...
    @property
    def broker_epoch(self) -> int: ...
    @property
    def peers(self) -> Peers: ...
    @property
    def replicas(self) -> ReplicaManager: ...


class Led(NamedTuple):
    """A partition that this broker leads, with the writer of its remote part."""

    leader_epoch: int
    writer: RemoteWriter
    task: asyncio.Task[None]


class Platform(Protocol):
    @property
    def probe_rounds(self) -> int: ...
    def object_store(self, url: str, options: Mapping[str, str]) -> ObjectStore: ...
    def threads(self, count: int, name: str) -> ThreadBackground: ...


def tiering_from(host: Host, platform: Platform, config: BrokerConfig) -> Tiering | Untiered:
    settings = tiering_settings(config)
    if settings is None:
        return Untiered()
    store = platform.object_store(settings.url, settings.options)
    threads = platform.threads(THREADS, "barnabas-remote")
    return Tiering(host, store, threads, settings, platform.probe_rounds)


def tell_recovering(partition: Partition) -> None:
    logger.error(
        "%s %s: it is offline until its leader, this broker, has read what is in the object store. "
        "`barnabas configs set topic %s barnabas.remote.unclean.wait=false` makes it take records without",
        partition.topic_partition,
        "has lost its log" if partition.has_lost_log else "was elected uncleanly",
        partition.topic,
    )


def end_tiering(partition: Partition) -> None:
    """Once a topic is tiered no longer, its logs start on their disks; the controller has the objects deleted."""
    log = partition.log
    if log.is_tiered and not log.config.remote_storage_enable and not partition.is_retired:
        logger.info(
            "%s is no longer tiered: it starts at %d", partition.topic_partition, log.local_start_offset
        )
        log.end_tiering()
        partition.log_start_moved()


class Untiered:
    """A broker without tiered storage."""

    def page_cache(self, background: Background, timers: Timers) -> PageCache:
        return PageCache(background)

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def use_config(self, config: BrokerConfig) -> None: ...

    def follow(self, partition: Partition) -> None:
        end_tiering(partition)
        if partition.is_recovering:
            tell_recovering(partition)

    def applied(self, deltas: Iterable[Delta]) -> None: ...

    def moved_to_tiers(self, partition: Partition) -> None:
        """It waits until this broker has tiered storage."""

    def waits_for_tiers(self, partition: Partition) -> bool:
        return False


class Tiering:
    """`RemoteParts` of the page cache. Belongs to the loop."""

    def __init__(
        self,
        host: Host,
        store: ObjectStore,
        threads: ThreadBackground,
        settings: TieringSettings,
        probe_rounds: int = ROUNDS,
    ) -> None:
        self._host = host
        self._probe_rounds = probe_rounds
        self.at: At = nowhere
        """Told of each step of every writer: the simulator kills brokers there."""
        self._threads = threads
        self.store = store
        self.reader = StoreReader(store, host.clock, settings.reader_threads)
        folder = f"{host.config.log_dirs[0]}/{CACHE_FOLDER}"
        self._files = ChunkFiles(host.files, folder)
        self.chunks = ChunkCache(
            self.reader.get_range,
            self._files,
            threads,
            limit=settings.cache_bytes,
            most_downloads=settings.reader_threads,
        )
        self.indexes = RemoteIndexCache(self.reader, threads)
        self._parts = ReadingParts(self.reader, self.indexes, self.chunks, threads, host.clock)
        self._pacer = Pacer(host.clock.monotonic, *copying_limits(host.config))
        self.remote: dict[TopicPartition, tuple[Log, RemoteLog]] = {}
        self.led: dict[TopicPartition, Led] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._reads: RemoteReads | None = None
        self._followers = TieredFollowers(host, self._remote_of)
        self._deletions = RemoteDeletions(host, store, lambda: INCARNATION, self._writers_ended)
        self.moved_to_tiers = self._followers.moved_to_tiers
        self.waits_for_tiers = self._followers.waits_for_tiers
        self._is_sound = self._is_stopped = False
        TieringMetrics(host.metrics, self._parts, lambda: self._reads, self._led_parts)
        self.problem = ""
        """Why nothing is copied, for `barnabas tier status`."""

    def _led_parts(self) -> Iterator[LedPart]:
        for place, led in self.led.items():
            yield LedPart(place.topic, self.remote[place][0], led.writer.manifest)

    def page_cache(self, background: Background, timers: Timers) -> PageCache:
        self._reads = RemoteReads(background, self, timers, lambda: remote_limits(self._host.config))
        return self._reads

    def use_config(self, config: BrokerConfig) -> None:
        self._pacer.allow(*copying_limits(config))
        self.chunks.most_downloads = config["remote.log.reader.threads"]

    # -- start and stop -----------------------------------------------------------------------------

    async def start(self) -> None:
        """UnsoundStoreError if the store must not be used."""
        await self._threads.call(self._files.empty)
        self._run(self._followers.learn_tiered_ends(lambda: list(self._host.replicas)))
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await probe(self.store, self._probe_rounds)
        except UnsoundStoreError:
            raise
        except (StoreError, TimeoutError) as error:
            self.problem = str(error) or f"the object store has not answered in {PROBE_SECONDS:g} s"
            logger.warning("nothing is copied until the object store answers: %s", self.problem)
            self._run(self._probe_until_it_answers())
        else:
            self._is_sound = True

    async def _probe_until_it_answers(self) -> None:
        backoff = Backoff()
        while not self._is_sound:
            await asyncio.sleep(backoff.after(StoreError(self.problem)))
            try:
                await probe(self.store, self._probe_rounds)
            except UnsoundStoreError as error:
                self.problem = error.message
                logger.error("%s", error)
                return
            except StoreError as error:
                self.problem = error.message
            else:
                self._is_sound, self.problem = True, ""
        self._deletions.follow()
        for partition in list(self._host.replicas):
            self.follow(partition)

    async def stop(self) -> None:
        """Copying ends wherever it is; the next leader goes on. What the metadata say from now on is not followed."""
        self._is_stopped = True
        led, self.led = self.led, {}
        await self._deletions.stop()
        tasks = [each.task for each in led.values()] + list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._followers.stop()
        if self._reads is not None:
            await self._reads.close()
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

    # -- reading ------------------------------------------------------------------------------------

    def remote_log(self, log: Log) -> RemoteLog | None:
        """With the manifest that the writer knows, if this broker leads."""
        known = self.remote.get(log.topic_partition)
        if known is None or known[0] is not log:
            return None
        led = self.led.get(log.topic_partition)
        if led is not None and (manifest := led.writer.manifest) is not None:
            known[1].manifest.use(manifest)
        return known[1]

    # -- following the metadata ---------------------------------------------------------------------

    def follow(self, partition: Partition) -> None:
        """A partition has taken over a state, has new settings, or has left this broker."""
        if self._is_stopped:
            return
        place, log = partition.topic_partition, partition.log
        if partition.is_retired or not log.config.remote_storage_enable:
            self._stop_writing(place)
            self._forget(place)
            end_tiering(partition)
            return
        remote = self._remote_of(partition)
        led = self.led.get(place)
        leads = partition.is_leader or partition.is_recovering
        if led is not None and leads and led.leader_epoch == partition.leader_epoch:
            led.writer.wake()
            return
        self._stop_writing(place)
        remote.manifest.use(None)  # valid for one leader epoch
        log.use_remote(None)
        if partition.is_recovering:
            tell_recovering(partition)
        if leads and self._is_sound:
            self._start_writing(partition, remote)

    def applied(self, deltas: Iterable[Delta]) -> None:
        """Settings of topics may have changed; partitions that have another leader were told of by `follow`."""
        if self._is_sound and not self._is_stopped:
            self._deletions.follow()
        for delta in deltas:
            if isinstance(delta, ConfigsChanged):
                for partition in list(self._host.replicas):
                    self.follow(partition)
                return

    def wake(self) -> None:
        """By the clock: something may have been sealed or flushed, or have expired."""
        for led in self.led.values():
            led.writer.wake()

    def _remote_of(self, partition: Partition) -> RemoteLog:
        place, log = partition.topic_partition, partition.log
        known = self.remote.get(place)
        if known is None or known[0] is not log:
            self._forget(place)
            known = self.remote[place] = log, RemoteLog(self.folder_of(partition), self._parts)
        return known[1]

    def folder_of(self, partition: Partition) -> PartitionFolder:
        return PartitionFolder(
            self._host.image.cluster_id, partition.topic, partition.topic_id, partition.index
        )

    def _forget(self, place: TopicPartition) -> None:
        known = self.remote.pop(place, None)
        if known is not None:
            self._run(known[1].close())

    # -- writing ------------------------------------------------------------------------------------

    def _start_writing(self, partition: Partition, remote: RemoteLog) -> None:
        host, log = self._host, partition.log
        name = f"broker {host.node_id} of epoch {host.broker_epoch}"
        writer = RemoteWriter(
            self.store,
            remote.folder,
            Writer(INCARNATION, partition.leader_epoch, name),
            LedLog(partition, remote, host.clock, self._threads.call),
            lambda: writer_settings(host.config, log.config),
            self._pacer,
            self._threads.call,
            host.clock,
            at=self.at,
            counters=partition.counters,
        )
        task = asyncio.create_task(self._write(writer, partition))
        self.led[partition.topic_partition] = Led(partition.leader_epoch, writer, task)
        log.use_remote(ManifestSegments(lambda: writer.manifest))

    async def _write(self, writer: RemoteWriter, partition: Partition) -> None:
        try:
            await writer.run()
        except Exception:
            logger.exception("the remote part of %s is not written any more", partition.topic_partition)

    def _stop_writing(self, place: TopicPartition) -> None:
        led = self.led.pop(place, None)
        if led is not None:
            led.task.cancel()
            self._ending.add(led.task)
            led.task.add_done_callback(self._ending.discard)

    async def _writers_ended(self) -> None:
        """Those that were told to: what they were sending is with the store, or never will be."""
        await asyncio.gather(*self._ending, return_exceptions=True)
