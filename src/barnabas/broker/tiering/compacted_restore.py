"""Recovery of a lost compacted log from its copy in the object store, before the partition has a leader."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.tiering.restored_partitions import written
from barnabas.common.clock import Clock
from barnabas.common.safe_logging import safe_logger
from barnabas.log import Log
from barnabas.log.tiering import rebuilding, write_lost_markers
from barnabas.records.batch import iterate_headers
from barnabas.replication.follower import pieces
from barnabas.tiering.reading import RemoteLog
from barnabas.tiering.stores import StoreError

logger = safe_logger(__name__)


async def take_back(
    log: Log, remote: RemoteLog, leader_epoch: int, clock: Clock, is_ours: Callable[[], bool]
) -> None:
    """Append all records of the remote copy while `is_ours` holds; nothing else may write to the log. After an
    interruption it starts over (`rebuilding.is_unfinished`). Raises StoreError if the copy cannot be read."""
    found = await remote.bootstrap()
    logger.warning(
        "%s takes its records back from the object store, up to %d", log.topic_partition, found.tiered_end
    )
    rebuilding.begin(log)
    async for batches in remote.all_batches():
        view = memoryview(batches)
        for piece in pieces(list(iterate_headers(view))):
            if not is_ours():
                raise StoreError(f"{log.topic_partition} is not led here any more")
            log.append_as_follower(view, clock.now_ms(), piece)
            await written(log)
    if log.log_end_offset != found.tiered_end:
        raise StoreError(
            f"{log.topic_partition} ends at {log.log_end_offset}, its copy at {found.tiered_end}"
        )
    write_lost_markers(log, found.open_transactions, leader_epoch, clock.now_ms(), found.tiered_end)
    await written(log)
    rebuilding.finish(log)
