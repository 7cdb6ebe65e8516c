"""Share groups on the broker (KIP-932): share partitions and the share coordinator.

`SharePartitionManager` holds the share partitions that this broker leads, with their record states and delivery
counts. `ShareCoordinator` stores that state in `__share_group_state`; `SharePersister` reads and writes it on the
broker that coordinates it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.share.acknowledgements import AcknowledgedRange, AcknowledgementBatch, read_acknowledgements
    from barnabas.share.acquisition import AcquireRequest
    from barnabas.share.batches_to_share import Batches
    from barnabas.share.coordinator import ShareCoordinator
    from barnabas.share.dead_letter_writer import DeadLetterWriter
    from barnabas.share.led_partition import LedSharePartition
    from barnabas.share.partition_manager import SharePartitionManager
    from barnabas.share.persister import SharePersister
    from barnabas.share.runs import AcquireMode
    from barnabas.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, ShareSession, TopicIdPartition
    from barnabas.share.state_shard import StateWrite
    from barnabas.share.stored_state import UNKNOWN_COUNT, StoredState, from_batches
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "acknowledgements": "AcknowledgedRange AcknowledgementBatch read_acknowledgements",
            "acquisition": "AcquireRequest",
            "batches_to_share": "Batches",
            "coordinator": "ShareCoordinator",
            "dead_letter_writer": "DeadLetterWriter",
            "led_partition": "LedSharePartition",
            "partition_manager": "SharePartitionManager",
            "persister": "SharePersister",
            "runs": "AcquireMode",
            "sessions": "FINAL_EPOCH INITIAL_EPOCH SessionKey ShareSession TopicIdPartition",
            "state_shard": "StateWrite",
            "stored_state": "StoredState UNKNOWN_COUNT from_batches",
        },
    )

__all__ = [
    "FINAL_EPOCH",
    "INITIAL_EPOCH",
    "UNKNOWN_COUNT",
    "AcknowledgedRange",
    "AcknowledgementBatch",
    "AcquireMode",
    "AcquireRequest",
    "Batches",
    "DeadLetterWriter",
    "LedSharePartition",
    "SessionKey",
    "ShareCoordinator",
    "SharePartitionManager",
    "SharePersister",
    "ShareSession",
    "StateWrite",
    "StoredState",
    "TopicIdPartition",
    "from_batches",
    "read_acknowledgements",
]
