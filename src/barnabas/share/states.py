"""The states of a record in a share partition (Kafka's RecordState).

             acquire                 accept
    AVAILABLE ------> ACQUIRED ------------------> ACKNOWLEDGED
        ^                |  |
        |  release, lock |  | reject, gap, or the last delivery has failed
        +----------------+  +--------------------> ARCHIVED
                            +--> ARCHIVING ------> ARCHIVED     (with a dead-letter topic, KIP-1191)

The last three are *settled*: the record is never delivered again. The numbers are those of `__share_group_state`.
"""

from __future__ import annotations

from enum import IntEnum


class RecordState(IntEnum):
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


class Acknowledgement(IntEnum):
    """What a consumer says of a record; a gap is an offset that holds none."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcquireMode(IntEnum):
    """How strictly a fetch keeps to its number of records (KIP-1206)."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


FINISHED = frozenset((RecordState.ACKNOWLEDGED, RecordState.ARCHIVED))
"""Nothing is left to do for such records: the start of the window may pass them."""
