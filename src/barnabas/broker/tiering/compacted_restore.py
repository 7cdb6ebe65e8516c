"""A compacted log that is lost takes its records back from its copy in the object store, before anybody leads it."""

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
    """While nobody else writes, and as long as it `is_ours`. Interrupted, it begins anew (`rebuilding.is_unfinished`).
    StoreError if something of the copy cannot be had."""
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
