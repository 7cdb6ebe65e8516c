"""The interface of `tiering.Tiering` for a broker without tiered storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from barnabas.broker.platform import Platform
from barnabas.broker.tiering.status import TieringProblem, describe_partition
from barnabas.cluster import Peers
from barnabas.cluster.deltas import Delta
from barnabas.cluster.image import MetadataImage, PartitionState
from barnabas.common.clock import Timers
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition, Uuid
from barnabas.config.broker import BrokerConfig
from barnabas.config.remote_origin import origin_of
from barnabas.controller import Controller
from barnabas.groups import GroupCoordinator
from barnabas.log import Log, names
from barnabas.log.tiering import is_unfinished, lost_markers
from barnabas.metrics import Registry
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS
from barnabas.protocol.messages.tiers import BrokerTiers, PartitionTier
from barnabas.replication import BackgroundThread, BrokerIdentity, ColdReads, Partition, ReplicaManager

if TYPE_CHECKING:
    from barnabas.broker.tiering.tiering import Tiering

logger = safe_logger(__name__)


def tiering_from(
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
) -> Tiering | NoTiering:
    if not config()["remote.log.storage.system.enable"]:
        return NoTiering(image)
    # Imported on demand: brokers without tiered storage do not need these fifty modules.
    from barnabas.broker.tiering.settings import tiering_settings
    from barnabas.broker.tiering.tiering import THREADS, Tiering

    settings = tiering_settings(config())
    return Tiering(
        platform.object_store(settings.url, settings.options),
        platform.threads(THREADS, "barnabas-remote"),
        settings,
        platform,
        controller=controller,
        replicas=replicas,
        peers=peers,
        metrics=metrics,
        config=config,
        image=image,
        identity=identity,
        settle=settle,
        follow_leadership=follow_leadership,
    )


def end_tiering(partition: Partition) -> None:
    """Move the log start offset of a topic that is no longer tiered to its local start. The controller deletes the
    objects."""
    log = partition.log
    if log.is_tiered and not log.config.remote_storage_enable and not partition.is_retired:
        logger.info(
            "%s is no longer tiered: it starts at %d", partition.topic_partition, log.local_start_offset
        )
        log.end_tiering()
        partition.log_start_moved()


def log_recovering(partition: Partition) -> None:
    logger.error(
        "%s %s: it is offline until this broker, its leader, has compared the log with the object store. "
        "`barnabas configs set topic %s barnabas.remote.unclean.wait=false` makes it accept records without that",
        partition.topic_partition,
        "has lost its log" if partition.has_lost_log else "was elected uncleanly",
        partition.topic,
    )


def awaits_store(image: MetadataImage, partition: Partition) -> bool:
    """True if the partition must be initialized from the store before it is led."""
    log = partition.log
    if lost_markers(log):
        return True
    origin = origin_of(image.topic_configs(partition.topic))
    return origin is not None and partition.index < origin.partitions and _has_not_begun(partition.topic, log)


def _has_not_begun(topic: str, log: Log) -> bool:
    is_empty = log.log_end_offset == 0 and not log.is_tiered
    return is_empty or is_unfinished(log) or (topic == CONSUMER_OFFSETS and log.fs.exists(unfinished(log)))


def unfinished(log: Log) -> str:
    return f"{log.folder}/{names.BEGINNING}"


class NoTiering:
    """Stand-in for `Tiering` in a broker without tiered storage."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._told: set[TopicPartition] = set()

    def page_cache(self, background: BackgroundThread, timers: Timers) -> ColdReads:
        return ColdReads(background)

    async def start(self, groups: GroupCoordinator) -> None: ...

    async def stop(self) -> None: ...

    def use_config(self, config: BrokerConfig) -> None: ...

    def follow(self, partition: Partition) -> None:
        end_tiering(partition)
        if partition.is_recovering:
            log_recovering(partition)

    def applied(self, deltas: Iterable[Delta]) -> None: ...

    def describe(self, log: Log) -> PartitionTier:
        return describe_partition(log, None, TieringProblem())

    def describe_broker(self) -> BrokerTiers:
        return BrokerTiers()

    def moved_to_tiers(self, partition: Partition) -> None:
        """No-op: the replica stays behind until tiered storage is enabled on this broker."""

    def may_lead(self, partition: Partition, state: PartitionState) -> bool:
        """False for a restored partition without local records: it would restart at offset 0."""
        tp = partition.topic_partition
        if not awaits_store(self._image(), partition):
            return True
        if tp not in self._told:
            self._told.add(tp)
            logger.error(
                "%s was restored from an object store, but this broker has no access to one and does not lead it. Set "
                "remote.log.storage.system.enable and barnabas.remote.storage.url, and restart the broker.",
                tp,
            )
        return False

    def waits_for_tiers(self, partition: Partition) -> bool:
        return False

    def store_covers(self, tp: TopicPartition, topic_id: Uuid, end: int) -> bool | None:
        return False
