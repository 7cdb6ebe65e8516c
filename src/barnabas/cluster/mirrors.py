"""State of mirror topics in the metadata log: their batches come from another cluster, with unchanged offsets and
leader epochs (`barnabas mirror`).

    ACTIVE <-> SOURCE_UNAVAILABLE, PAUSED, FAILED       set by the mirror process and by operators
    any of these -> PROMOTING -> STOPPED                an ordinary topic from then on
    (an ordinary topic, STOPPED) -> REVERSING -> ACTIVE failback

In PROMOTING and REVERSING each leader finishes its part and reports it to the controller (SettleMirrors); when all
have, the next state is stored. Both start with a new leader epoch, `since_epoch` of each partition.
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
    """Reason why the partition accepts no batches; empty if it does."""
    since_epoch: int = -1
    settled_epoch: int = -1
    """Leader epoch in which the leader finished its part; reports of earlier leaders are ignored."""
    promoted_at: int = -1
    """PROMOTING, STOPPED: end offset of the mirrored part. REVERSING: that of the new primary."""
    promoted_epoch: int = -1
    """Leader epoch, in the source, of the last batch below `promoted_at`."""
    own_from: int = -1
    """First offset after the markers of the promotion; producers without later batches belong to the source."""
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
        """Return the state of a partition; one added after the promotion has the default state."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else NEW_PARTITION

    @property
    def is_own(self) -> bool:
        """True if the topic is an ordinary one now, which accepts writes of clients."""
        return self.state == MirrorState.STOPPED

    @property
    def is_settling(self) -> bool:
        return self.state in SETTLING

    def write_refusal(self, name: str) -> str:
        """Return the error message for clients that write to the mirror."""
        return (
            f"{name} is a mirror of {self.source_name} in cluster {self.source_cluster_id} (link {self.link}, "
            f"{MirrorState(self.state).name}): write there. To write here, end the mirror with `barnabas mirror "
            "promote` (waits until the mirror has all records) or `barnabas mirror failover` (does not wait)"
        )

    def append_refusal(self, name: str, index: int) -> str | None:
        """Reason why a partition accepts no batches from the source; None if it does."""
        if failure := self.partition(index).failure:
            return f"{name}-{index} is FAILED: {failure}. Retry with `barnabas mirror resume`"
        if self.state in TAKES_BATCHES:
            return None
        reason = f" ({self.reason})" if self.reason else ""
        return f"the mirror {name} is {MirrorState(self.state).name}{reason}"
