"""A broker without tiered storage: what others ask of `tiering.Tiering`, answered without a store."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.broker.tiering.beginnings import Host, awaits_store
from barnabas.broker.tiering.status import Problem, describe_partition
from barnabas.common.clock import Timers
from barnabas.cluster.deltas import Delta
from barnabas.cluster.image import PartitionState
from barnabas.config.broker import BrokerConfig
from barnabas.log.log import Log
from barnabas.common.safe_logging import safe_logger
from barnabas.protocol.messages.tiers import BrokerTiers, PartitionTier
from barnabas.replication.flusher import Background
from barnabas.replication.page_cache import ColdReads
from barnabas.replication.partition import Partition
from barnabas.common.types import TopicPartition

logger = safe_logger(__name__)


def end_tiering(partition: Partition) -> None:
    """Once a topic is tiered no longer, its logs start on their disks; the controller has the objects deleted."""
    log = partition.log
    if log.is_tiered and not log.config.remote_storage_enable and not partition.is_retired:
        logger.info(
            "%s is no longer tiered: it starts at %d", partition.topic_partition, log.local_start_offset
        )
        log.end_tiering()
        partition.log_start_moved()


def tell_recovering(partition: Partition) -> None:
    logger.error(
        "%s %s: it is offline until its leader, this broker, has read what is in the object store. "
        "`barnabas configs set topic %s barnabas.remote.unclean.wait=false` makes it take records without",
        partition.topic_partition,
        "has lost its log" if partition.has_lost_log else "was elected uncleanly",
        partition.topic,
    )


class Untiered:
    """A broker without tiered storage."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._told: set[TopicPartition] = set()

    def page_cache(self, background: Background, timers: Timers) -> ColdReads:
        return ColdReads(background)

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def use_config(self, config: BrokerConfig) -> None: ...

    def follow(self, partition: Partition) -> None:
        end_tiering(partition)
        if partition.is_recovering:
            tell_recovering(partition)

    def applied(self, deltas: Iterable[Delta]) -> None: ...

    def describe(self, log: Log) -> PartitionTier:
        return describe_partition(log, None, Problem())

    def describe_broker(self) -> BrokerTiers:
        return BrokerTiers()

    def moved_to_tiers(self, partition: Partition) -> None:
        """It waits until this broker has tiered storage."""

    def may_lead(self, partition: Partition, state: PartitionState) -> bool:
        """Not a partition that was restored and has nothing here: it would begin anew."""
        place = partition.topic_partition
        if not awaits_store(self._host.image, partition):
            return True
        if place not in self._told:
            self._told.add(place)
            logger.error(
                "%s was restored from an object store, and this broker has none: it is not led. Set "
                "remote.log.storage.system.enable and barnabas.remote.storage.url, and start the broker again.",
                place,
            )
        return False

    def waits_for_tiers(self, partition: Partition) -> bool:
        return False
