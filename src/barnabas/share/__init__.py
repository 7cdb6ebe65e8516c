"""Share groups on the broker (KIP-932): share partitions and the share coordinator.

`SharePartitionManager` holds the share partitions that this broker leads, with their record states and delivery
counts. `ShareCoordinator` stores that state in `__share_group_state`; `SharePersister` reads and writes it on the
broker that coordinates it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.share.acknowledgements import AcknowledgedRange as AcknowledgedRange
    from barnabas.share.acknowledgements import AcknowledgementBatch as AcknowledgementBatch
    from barnabas.share.acknowledgements import read_acknowledgements as read_acknowledgements
    from barnabas.share.acquisition import AcquireRequest as AcquireRequest
    from barnabas.share.batches_to_share import Batches as Batches
    from barnabas.share.coordinator import ShareCoordinator as ShareCoordinator
    from barnabas.share.dead_letter_writer import DeadLetterWriter as DeadLetterWriter
    from barnabas.share.led_partition import LedSharePartition as LedSharePartition
    from barnabas.share.led_partition import ShareEnvironment as ShareEnvironment
    from barnabas.share.partition_manager import SharePartitionManager as SharePartitionManager
    from barnabas.share.persister import SharePersister as SharePersister
    from barnabas.share.runs import AcquireMode as AcquireMode
    from barnabas.share.sessions import FINAL_EPOCH as FINAL_EPOCH
    from barnabas.share.sessions import INITIAL_EPOCH as INITIAL_EPOCH
    from barnabas.share.sessions import SessionKey as SessionKey
    from barnabas.share.sessions import ShareSession as ShareSession
    from barnabas.share.sessions import ShareSessions as ShareSessions
    from barnabas.share.sessions import TopicIdPartition as TopicIdPartition
    from barnabas.share.state_shard import StateWrite as StateWrite
    from barnabas.share.stored_state import UNKNOWN_COUNT as UNKNOWN_COUNT
    from barnabas.share.stored_state import StoredState as StoredState
    from barnabas.share.stored_state import from_batches as from_batches
else:
    __getattr__ = lazy_exports(__name__)
