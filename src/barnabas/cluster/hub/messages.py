"""Messages between the hub and a process, as JSON. A `number` connects a request with its answer."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from barnabas.cluster.deltas import Delta
from barnabas.cluster.membership import BrokerInfo
from barnabas.common.types import TopicPartition

UNASKED = 0
"""Number of a message that answers no request."""


class _HubMessage(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    pass


# -- From a process to the hub -------------------------------------------------------------------------


class LoadMetadata(_HubMessage, frozen=True):
    number: int


class AppendEntry(_HubMessage, frozen=True):
    number: int
    image_offset: int
    controller_epoch: int
    deltas: list[Delta]


class ReadHead(_HubMessage, frozen=True):
    number: int


class SaveMetadata(_HubMessage, frozen=True):
    """Write a snapshot, because the log has become long."""

    number: int


class EntryApplied(_HubMessage, frozen=True):
    """This process serves with the image at this offset."""

    offset: int


class JoinNode(_HubMessage, frozen=True):
    number: int
    info: BrokerInfo


class LeaveNode(_HubMessage, frozen=True):
    number: int


class EnterElection(_HubMessage, frozen=True):
    pass


class StepDown(_HubMessage, frozen=True):
    pass


class RequestHolds(_HubMessage, frozen=True):
    number: int
    partitions: list[TopicPartition]


class ReleaseHolds(_HubMessage, frozen=True):
    """`are_closed`: they were open, are flushed and closed, and their notes are written. Otherwise this process has not
    opened them, or has deleted them."""

    partitions: list[TopicPartition]
    are_closed: bool = True


class ConnectPeer(_HubMessage, frozen=True):
    number: int
    broker_id: int


class ProcessReady(_HubMessage, frozen=True):
    """The process serves clients; `lines` are what `serve` prints about it."""

    lines: list[str] = []


class ProcessFailed(_HubMessage, frozen=True):
    """The process ends, because it cannot start or cannot continue."""

    reason: str


class KeepCompanion(_HubMessage, frozen=True):
    """The supervisor is to run a companion, which outlives this process. The fields are those of CompanionStart."""

    name: str
    arguments: list[str]
    greeting: dict[str, Any]
    quiet: bool = False


# -- From the hub to a process -------------------------------------------------------------------------


class MetadataLoaded(_HubMessage, frozen=True):
    """The image at `offset`, as deltas from the empty one. Later entries follow as EntryAppended."""

    number: int
    offset: int
    deltas: list[Delta]


class EntryAppended(_HubMessage, frozen=True):
    offset: int
    deltas: list[Delta]
    wants_snapshot: bool = False


class NumberAnswer(_HubMessage, frozen=True):
    number: int
    value: int = 0


class HubRefusal(_HubMessage, frozen=True):
    number: int
    code: int
    reason: str
    is_stale_controller: bool = False


class HeldPartition(_HubMessage, frozen=True):
    """`stop` says how the partition was closed, by ShutdownKind; `topic_id` is that of the newest metadata, None if
    the partition is deleted."""

    partition: TopicPartition
    stop: str
    topic_id: bytes | None = None


class HoldsGranted(_HubMessage, frozen=True):
    """Answers a request with what was free; the others follow, UNASKED."""

    granted: list[HeldPartition]
    number: int = UNASKED


class ElectedController(_HubMessage, frozen=True):
    epoch: int


class NodeMembers(_HubMessage, frozen=True):
    brokers: list[BrokerInfo]


class PeerConnected(_HubMessage, frozen=True):
    """Comes with the descriptor of a connection, for the process that asked (`number`), and for the other one."""

    number: int = UNASKED


class MonitorConnected(_HubMessage, frozen=True):
    """Comes with the descriptor of a connection between the metrics process and this broker, for both."""

    broker_id: int


class StopProcess(_HubMessage, frozen=True):
    pass


ToHub: TypeAlias = (
    LoadMetadata
    | ReadHead
    | AppendEntry
    | SaveMetadata
    | EntryApplied
    | JoinNode
    | LeaveNode
    | EnterElection
    | StepDown
    | RequestHolds
    | ReleaseHolds
    | ConnectPeer
    | ProcessReady
    | ProcessFailed
    | KeepCompanion
)
ToProcess: TypeAlias = (
    MetadataLoaded
    | EntryAppended
    | NumberAnswer
    | HubRefusal
    | HoldsGranted
    | ElectedController
    | NodeMembers
    | PeerConnected
    | MonitorConnected
    | StopProcess
)

# -- About the state at the top of a log dir: question and answer on a separate socket ------------------

Offsets: TypeAlias = list[tuple[str, int, int]]
"""Topic, partition, offset."""


class ReadIdentity(_HubMessage, frozen=True):
    folder: str


class ClaimDir(_HubMessage, frozen=True):
    folder: str
    cluster_id: str


class ReadShutdown(_HubMessage, frozen=True):
    folder: str


class LossReported(_HubMessage, frozen=True):
    """The controller knows what this process has lost in a crash, and all partitions that it held are recovered."""

    folder: str


class DirClosed(_HubMessage, frozen=True):
    folder: str
    broker_epoch: int
    partitions: list[TopicPartition]


class ReadOffsets(_HubMessage, frozen=True):
    folder: str
    name: str


class WriteOffsets(_HubMessage, frozen=True):
    """Replaces the entries of the partitions that the sender holds, and has sent since it holds them or `removed`."""

    folder: str
    name: str
    offsets: Offsets
    removed: list[TopicPartition] = []


class ReadPartitions(_HubMessage, frozen=True):
    folder: str
    name: str


class WritePartitions(_HubMessage, frozen=True):
    """Replaces those of the partitions that the sender holds."""

    folder: str
    name: str
    partitions: list[TopicPartition]


AboutLogDir: TypeAlias = (
    ReadIdentity
    | ClaimDir
    | ReadShutdown
    | LossReported
    | DirClosed
    | ReadOffsets
    | WriteOffsets
    | ReadPartitions
    | WritePartitions
)


class LogDirAnswer(_HubMessage, frozen=True):
    """An answer about a log dir, or the error of the hub's disk (`errno`) or of Kafka's protocol (`code`)."""

    identity: tuple[str, int, bytes] | None = None
    stop: str = ""
    offsets: Offsets = []
    partitions: list[TopicPartition] = []
    errno: int = 0
    code: int = 0
    reason: str = ""
