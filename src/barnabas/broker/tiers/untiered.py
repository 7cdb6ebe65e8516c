"""A broker without tiered storage, to the rest of the broker as one that has it."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.broker.tiers.status import Problem, describe_partition
from barnabas.clock import Timers
from barnabas.cluster.deltas import Delta
from barnabas.config.broker import BrokerConfig
from barnabas.log.log import Log
from barnabas.log_lines import safe_logger
from barnabas.protocol.messages.tiers import BrokerTiers, PartitionTier
from barnabas.replication.flusher import Background
from barnabas.replication.page_cache import PageCache
from barnabas.replication.partition import Partition

logger = safe_logger(__name__)


class Untiered:
    """See `Tiering`."""

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

    def describe(self, log: Log) -> PartitionTier:
        return describe_partition(log, None, Problem())

    def describe_broker(self) -> BrokerTiers:
        return BrokerTiers()

    def moved_to_tiers(self, partition: Partition) -> None:
        """It waits until this broker has tiered storage."""

    def waits_for_tiers(self, partition: Partition) -> bool:
        return False


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
