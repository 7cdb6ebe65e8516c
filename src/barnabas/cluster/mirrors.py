"""Mirror topics, as the metadata log has them: topics whose batches come from another cluster, with their offsets and
leader epochs (`barnabas mirror`).

    ACTIVE <-> SOURCE_UNAVAILABLE, PAUSED, FAILED       what the mirror sees, and what operators say
    any of these -> PROMOTING -> STOPPED                its own from then on
    (an ordinary topic, STOPPED) -> REVERSING -> ACTIVE the way back

In PROMOTING and REVERSING each leader does its part and tells the controller (SettleMirrors); when all have, the next
state is stored. Both begin with a new leader epoch, `since_epoch` of each partition.
"""

from __future__ import annotations

import msgspec

from barnabas.common.types import Uuid
from barnabas.protocol.messages.mirror import MirrorState

TAKES_BATCHES = frozenset({MirrorState.ACTIVE, MirrorState.SOURCE_UNAVAILABLE})
SETTLING = frozenset({MirrorState.PROMOTING, MirrorState.REVERSING})


class Aborted(msgspec.Struct, frozen=True, array_like=True):
    """A transaction that was open when its partition was promoted."""

    producer_id: int
    producer_epoch: int
    first_offset: int


class MirrorPartition(msgspec.Struct, frozen=True, array_like=True):
    failure: str = ""
    """Why it takes no batches; empty if it does."""
    since_epoch: int = -1
    settled_epoch: int = -1
    """The leader epoch in which its leader has done its part; what an earlier leader has said counts no more."""
    promoted_at: int = -1
    """PROMOTING, STOPPED: where the mirrored part ends. REVERSING: where that of the new primary does."""
    promoted_epoch: int = -1
    """The source's epoch of the last batch below it."""
    own_from: int = -1
    """Behind the markers of the promotion: producers that are only known from before are another cluster's."""
    aborted: tuple[Aborted, ...] = ()


NEW_PARTITION = MirrorPartition()


class MirrorTopic(msgspec.Struct, frozen=True):
    topic_id: Uuid
    link: str
    source_cluster_id: str
    source_name: str
    source_topic_id: Uuid
    path: tuple[str, ...] = ()
    state: int = MirrorState.ACTIVE
    reason: str = ""
    partitions: tuple[MirrorPartition, ...] = ()

    def partition(self, index: int) -> MirrorPartition:
        """One that was added after the promotion is like any other's."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else NEW_PARTITION

    @property
    def is_own(self) -> bool:
        """Is it an ordinary topic now, which takes what clients write?"""
        return self.state == MirrorState.STOPPED

    @property
    def is_settling(self) -> bool:
        return self.state in SETTLING

    def why_not_written(self, name: str) -> str:
        """For clients that write to it."""
        return (
            f"{name} is a mirror of {self.source_name} in cluster {self.source_cluster_id} (link {self.link}, "
            f"{MirrorState(self.state).name}): write there. To write here, end the mirror with `barnabas mirror "
            "promote` (waits until nothing is missing) or `barnabas mirror failover` (does not)"
        )

    def why_not_mirrored(self, name: str, index: int) -> str | None:
        """Why a partition takes no batches of the source; None if it does."""
        if failure := self.partition(index).failure:
            return f"{name}-{index} is FAILED: {failure}. `barnabas mirror resume` tries again"
        if self.state in TAKES_BATCHES:
            return None
        reason = f" ({self.reason})" if self.reason else ""
        return f"the mirror {name} is {MirrorState(self.state).name}{reason}"
