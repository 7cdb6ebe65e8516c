"""The hub: its state, the metadata log and the log dirs behind the links of the processes.

It runs on one thread without an event loop. Writes of metadata and checkpoints are synchronous: only other writes of
them wait meanwhile, and no request of a client.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from barnabas.cluster.deltas import apply
from barnabas.cluster.hub.link import HubChannel
from barnabas.cluster.hub.log_dirs import NodeLogDirs
from barnabas.cluster.hub.messages import (
    AboutLogDir,
    AppendEntry,
    ConnectPeer,
    EnterElection,
    EntryAppended,
    EntryApplied,
    HoldsGranted,
    HubRefusal,
    JoinNode,
    KeepCompanion,
    LeaveNode,
    LoadMetadata,
    MetadataLoaded,
    NumberAnswer,
    PeerConnected,
    ProcessFailed,
    ProcessReady,
    ReadHead,
    ReleaseHolds,
    RequestHolds,
    SaveMetadata,
    StepDown,
    ToHub,
    ToProcess,
)
from barnabas.cluster.hub.state import HubState, Outgoing
from barnabas.cluster.image import MetadataImage
from barnabas.cluster.snapshots import snapshot_of
from barnabas.cluster.store import FileMetadataStore, StaleControllerError
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.types import TopicPartition, Uuid

T = TypeVar("T")

APPLY_SECONDS = 0.1
"""An append is answered when every process has applied the entry, or after this time: a client that creates a topic at
one process and lists topics at another finds it."""

RETRY_SECONDS = 1.0
"""Pause before checkpoints are written again to a full disk."""


async def run_inline(work: Callable[[], None]) -> None:
    """Run blocking work of a metadata store at once: the hub has no other thread."""
    work()


def finish_now(steps: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing."""
    try:
        steps.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("the coroutine has to wait, which the hub cannot")


class HubProcess:
    """One run of a process, as the hub sees it."""

    def __init__(
        self, session: int, k: int, channel: HubChannel[ToHub], notes: HubChannel[AboutLogDir]
    ) -> None:
        self.session = session
        self.k = k
        self.channel = channel
        self.notes = notes
        self.loaded = False
        self.applied: int | None = None
        """Offset of the last entry it serves with; None until it serves."""
        self.ready: ProcessReady | None = None
        self.failure = ""
        self.companions: list[KeepCompanion] = []
        """Ordered, for the supervisor to take."""

    def reported(self, message: ProcessReady | ProcessFailed | KeepCompanion) -> None:
        """Keep what is for the supervisor."""
        match message:
            case ProcessReady():
                self.ready = message
            case ProcessFailed(reason=reason):
                self.failure = reason
            case KeepCompanion():
                self.companions.append(message)


class _PendingAnswer(NamedTuple):
    session: int
    number: int
    offset: int
    due: float


class Hub:
    def __init__(self, fs: FileSystem, metadata_folder: str, dirs: NodeLogDirs, processes: int) -> None:
        self._store = FileMetadataStore(fs, metadata_folder, run_blocking=run_inline)
        self.dirs = dirs
        self._count = processes
        self.image: MetadataImage = finish_now(self._store.load())
        self._store.follow(self._appended)
        self.processes: dict[int, HubProcess] = {}
        self._pending: list[_PendingAnswer] = []
        self._withheld: set[tuple[int, TopicPartition]] = set()
        """Sessions and partitions that they hold, but may not open before the disk has room for their checkpoints."""
        self._retry_at = 0.0
        self.state: HubState

    def open_dirs(self) -> None:
        """Note that the node runs. Until here, nothing was changed."""
        self.dirs.open()
        self.state = HubState(
            topic_id=self._topic_id,
            node_stop=self.dirs.node_stop.value,
            broker_epoch=max((each.epoch for each in self.image.brokers.values()), default=0),
            controller_epoch=self.image.controller_epoch,
        )

    def _topic_id(self, tp: TopicPartition) -> Uuid | None:
        topic = self.image.topics.get(tp.topic)
        return None if topic is None or topic.partition(tp.partition) is None else topic.topic_id

    def close(self) -> None:
        finish_now(self._store.close())

    # -- processes ----------------------------------------------------------------------------------

    def begin(self, process: HubProcess) -> None:
        self.processes[process.session] = process
        self.dirs.process_starts(process.k)
        self.state.begin(process.session)

    def end(self, process: HubProcess) -> None:
        """The process has ended, and all of its files are closed."""
        del self.processes[process.session]
        self._withheld = {each for each in self._withheld if each[0] != process.session}
        self._deliver(self.state.end(process.session))
        self.answer_appends(time.monotonic())

    def receive(self, process: HubProcess) -> None:
        """Handle what has arrived; raise LinkLostError if the process has ended."""
        for message in process.channel.receive():
            self._handle(process, message)

    def receive_question(self, process: HubProcess) -> None:
        """Answer questions about log dirs; raise LinkLostError if the process has ended."""
        for question in process.notes.receive():
            answer = self.dirs.answer(self.state, process.session, process.k, self._count, question)
            process.notes.send(answer)

    def _deliver(self, messages: Outgoing) -> None:
        for session, message in messages:
            if isinstance(message, HoldsGranted):
                message = self._openable(session, message)
            self.processes[session].channel.send(message)

    def _openable(self, session: int, message: HoldsGranted) -> HoldsGranted:
        withheld = self.dirs.granted(message.granted)
        if not withheld:
            return message
        self._withheld |= {(session, each) for each in withheld}
        self._retry_at = time.monotonic() + RETRY_SECONDS
        granted = [each for each in message.granted if each.partition not in withheld]
        return HoldsGranted(granted, message.number)

    def _grant_withheld(self) -> None:
        withheld, self._withheld = self._withheld, set()
        for session, partition in withheld:
            if self.state.is_held_by(session, partition):
                self._deliver([(session, HoldsGranted([self.state.held(partition)]))])

    def _handle(self, process: HubProcess, message: ToHub) -> None:
        session, state = process.session, self.state
        match message:
            case EnterElection():
                self._deliver(state.enter_election(session))
            case StepDown():
                self._deliver(state.step_down(session))
            case RequestHolds(number=number, partitions=partitions):
                self._deliver(state.request_holds(session, partitions, number))
            case ReleaseHolds(partitions=partitions, are_closed=are_closed):
                self._deliver(state.release(session, partitions, are_closed=are_closed))
            case ConnectPeer(number=number, broker_id=broker_id):
                self._connect(process, number, broker_id)
            case EntryApplied(offset=offset):
                process.applied = offset
                self.answer_appends(time.monotonic())
            case ProcessReady() | ProcessFailed() | KeepCompanion():
                process.reported(message)
            case AppendEntry():
                self._append(process, message)
            case _:
                process.channel.send(self._answer(process, message))

    def _answer(
        self, process: HubProcess, message: LoadMetadata | ReadHead | SaveMetadata | JoinNode | LeaveNode
    ) -> ToProcess:
        match message:
            case LoadMetadata(number=number):
                process.loaded = True
                return MetadataLoaded(number, self.image.offset, list(snapshot_of(self.image)))
            case ReadHead(number=number):
                return NumberAnswer(number, self.image.offset)
            case SaveMetadata(number=number):
                finish_now(self._store.save_snapshot(self.image))
                return NumberAnswer(number)
            case JoinNode(number=number, info=info):
                epoch, messages = self.state.join(process.session, info, self.image.offset)
                self._deliver(messages)
                return NumberAnswer(number, epoch)
            case LeaveNode(number=number):
                self._deliver(self.state.leave(process.session))
                return NumberAnswer(number)

    # -- metadata -----------------------------------------------------------------------------------

    def _append(self, process: HubProcess, message: AppendEntry) -> None:
        number = message.number
        try:
            if self.state.controller != process.session:
                raise StaleControllerError("another process of this node is the controller")
            offset = finish_now(
                self._store.append(message.image_offset, message.controller_epoch, message.deltas)
            )
        except KafkaError as error:
            is_stale = isinstance(error, StaleControllerError)
            process.channel.send(HubRefusal(number, error.code, error.message, is_stale))
            return
        self._pending.append(
            _PendingAnswer(process.session, number, offset, time.monotonic() + APPLY_SECONDS)
        )
        self.answer_appends(time.monotonic())

    def _appended(self, offset: int, deltas: list[Any]) -> None:
        self.image = apply(self.image, deltas)
        entry = EntryAppended(offset, deltas, self._store.wants_snapshot)
        for process in self.processes.values():
            if process.loaded:
                process.channel.send(entry)

    def run_due(self, now: float) -> None:
        """Call it whenever `due` has passed."""
        if self._withheld and now >= self._retry_at:
            self._grant_withheld()
        self.answer_appends(now)

    def answer_appends(self, now: float) -> None:
        """Answer the appends that every other process has applied, and those that have waited long enough."""
        waiting = []
        for pending in self._pending:
            writer = self.processes.get(pending.session)
            if writer is None:
                continue
            is_applied = all(
                each.applied is None or each.applied >= pending.offset
                for each in self.processes.values()
                if each is not writer
            )
            if is_applied or now >= pending.due:
                writer.channel.send(NumberAnswer(pending.number, pending.offset))
            else:
                waiting.append(pending)
        self._pending = waiting

    @property
    def due(self) -> float | None:
        """Time of the next call of `run_due`, by the monotonic clock."""
        times = [pending.due for pending in self._pending]
        return min([*times, self._retry_at] if self._withheld else times, default=None)

    # -- connections between processes --------------------------------------------------------------

    def _connect(self, process: HubProcess, number: int, broker_id: int) -> None:
        """Make a socket pair, and give one end to each process."""
        session = self.state.session_of(broker_id)
        if session is None:
            reason = f"broker {broker_id} is not running"
            process.channel.send(HubRefusal(number, ErrorCode.BROKER_NOT_AVAILABLE, reason))
            return
        near, far = socket.socketpair()
        with near, far:
            self.processes[session].channel.send(PeerConnected(), [far])
            process.channel.send(PeerConnected(number), [near])
