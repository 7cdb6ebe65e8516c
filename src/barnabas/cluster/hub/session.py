"""A process's session with the hub: its metadata store, its membership and its holds, on an event loop.

There are neither timeouts nor fencing: a session ends with its process, and a process that loses its hub ends, as
if it had been killed.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from barnabas.cluster.deltas import Delta
from barnabas.cluster.hub.link import HubChannel, LinkLostError
from barnabas.cluster.hub.messages import (
    UNASKED,
    AppendEntry,
    ConnectPeer,
    ElectedController,
    EnterElection,
    EntryAppended,
    EntryApplied,
    HeldPartition,
    HoldsGranted,
    HubRefusal,
    JoinNode,
    KeepCompanion,
    LeaveNode,
    LoadMetadata,
    MetadataLoaded,
    MonitorConnected,
    NodeMembers,
    NumberAnswer,
    PeerConnected,
    ProcessReady,
    ReadHead,
    ReleaseHolds,
    RequestHolds,
    SaveMetadata,
    StepDown,
    StopProcess,
    ToProcess,
)
from barnabas.cluster.hub.notes import HUB_ENDED
from barnabas.cluster.image import MetadataImage
from barnabas.cluster.membership import BrokerInfo, Brokers, ClusterConnection, Elected, Told
from barnabas.cluster.processes import Hold, Holds, NodeProcess
from barnabas.cluster.snapshots import image_from_snapshot
from barnabas.cluster.store import OnEntry, StaleControllerError
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.log.recovery import ShutdownKind


class HubSession:
    """Implements MetadataStore, Membership and HoldService. Belongs to the event loop that `start` is called on."""

    is_fenced = False
    is_connected = True

    def __init__(self, channel: HubChannel[ToProcess]) -> None:
        self._channel = channel
        self._loop: asyncio.AbstractEventLoop
        self._numbers = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._on_entry: OnEntry | None = None
        self._early: list[EntryAppended] = []
        self._wants_snapshot = False
        self._on_elected: Elected | None = None
        self._on_resigned: Told | None = None
        self._on_brokers: Callable[[Brokers], None] | None = None
        self.on_granted: Callable[[Holds], None] = lambda holds: None
        self.on_peer: Callable[[socket.socket], None] = socket.socket.close
        """Called with a connection of another process of this node."""
        self.on_monitor: Callable[[socket.socket], None] = socket.socket.close
        """Called with a connection of the metrics process."""
        self.on_stop: Told = lambda: None
        """Called when the hub orders this process to stop."""

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._channel.fileno(), self._readable)

    # -- messages -----------------------------------------------------------------------------------

    def _readable(self) -> None:
        try:
            for message in self._channel.receive():
                self._received(message)
        except LinkLostError:
            os._exit(HUB_ENDED)

    def _send(self, message: msgspec.Struct) -> None:
        self._channel.send(message)
        if self._channel.has_output:
            self._loop.add_writer(self._channel.fileno(), self._writable)

    def _writable(self) -> None:
        self._channel.flush()
        if not self._channel.has_output:
            self._loop.remove_writer(self._channel.fileno())

    async def _ask(self, question: Callable[[int], msgspec.Struct]) -> Any:
        self._numbers += 1
        number = self._numbers
        answer = self._answers[number] = self._loop.create_future()
        self._send(question(number))
        try:
            return await answer
        finally:
            self._answers.pop(number, None)

    def _received(self, message: ToProcess) -> None:
        match message:
            case EntryAppended():
                self._entry(message)
            case ElectedController(epoch=epoch) if self._on_elected is not None:
                self._on_elected(epoch)
            case NodeMembers(brokers=brokers) if self._on_brokers is not None:
                self._on_brokers({each.id: each for each in brokers})
            case PeerConnected() | MonitorConnected():
                self._connected(message, self._channel.take_descriptor())
            case HoldsGranted(granted=granted, number=number):
                if number == UNASKED or not self._answered(number, granted):
                    self.on_granted(_holds_of(granted))
            case HubRefusal(number=number, code=code, reason=reason, is_stale_controller=is_stale):
                error = StaleControllerError(reason) if is_stale else KafkaError(ErrorCode(code), reason)
                self._answered(number, error)
            case NumberAnswer() | MetadataLoaded():
                self._answered(message.number, message)
            case StopProcess():
                self.on_stop()

    def _answered(self, number: int, answer: object) -> bool:
        future = self._answers.get(number)
        if future is None or future.done():
            return False
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
        return True

    def _connected(self, message: PeerConnected | MonitorConnected, end: socket.socket) -> None:
        if isinstance(message, MonitorConnected):
            self.on_monitor(end)
        elif message.number == UNASKED:
            self.on_peer(end)
        elif not self._answered(message.number, end):
            end.close()

    # -- MetadataStore ------------------------------------------------------------------------------

    async def load(self) -> MetadataImage:
        answer: MetadataLoaded = await self._ask(LoadMetadata)
        return image_from_snapshot(answer.deltas, answer.offset)

    async def append(self, image_offset: int, controller_epoch: int, deltas: list[Delta]) -> int:
        answer: NumberAnswer = await self._ask(
            lambda number: AppendEntry(number, image_offset, controller_epoch, deltas)
        )
        return answer.value

    async def head(self) -> int:
        answer: NumberAnswer = await self._ask(ReadHead)
        return answer.value

    def follow(self, on_entry: OnEntry) -> None:
        self._on_entry = on_entry
        early, self._early = self._early, []
        for entry in early:
            self._entry(entry)

    def _entry(self, entry: EntryAppended) -> None:
        self._wants_snapshot = entry.wants_snapshot
        if self._on_entry is None:
            self._early.append(entry)
        else:
            self._on_entry(entry.offset, entry.deltas)

    @property
    def wants_snapshot(self) -> bool:
        return self._wants_snapshot

    async def save_snapshot(self, image: MetadataImage) -> None:
        """The hub writes its own image."""
        self._wants_snapshot = False
        await self._ask(SaveMetadata)

    async def close(self) -> None:
        """The session ends with the process."""

    def applied(self, offset: int) -> None:
        """Report that this process serves with the image at this offset."""
        self._send(EntryApplied(offset))

    # -- Membership ---------------------------------------------------------------------------------

    async def join(self, info: BrokerInfo) -> int:
        answer: NumberAnswer = await self._ask(lambda number: JoinNode(number, info))
        return answer.value

    async def leave(self) -> None:
        await self._ask(LeaveNode)

    def campaign(self, on_elected: Elected, on_resigned: Told) -> None:
        self._on_elected, self._on_resigned = on_elected, on_resigned
        self._send(EnterElection())

    def step_down(self) -> None:
        if self._on_resigned is not None:
            self._on_resigned()
        self._send(StepDown())

    def on_brokers_changed(self, callback: Callable[[Brokers], None]) -> None:
        self._on_brokers = callback

    def on_fenced(self, callback: Told) -> None:
        """Never called."""

    # -- holds and other processes ------------------------------------------------------------------

    async def request(self, partitions: Collection[TopicPartition]) -> Holds:
        granted: list[HeldPartition] = await self._ask(lambda number: RequestHolds(number, list(partitions)))
        return _holds_of(granted)

    def release(self, partitions: Collection[TopicPartition], *, are_closed: bool) -> None:
        self._send(ReleaseHolds(list(partitions), are_closed))

    async def connect_peer(self, broker_id: int) -> socket.socket:
        """A connection to another process of this node; raise KafkaError if it does not run."""
        end: socket.socket = await self._ask(lambda number: ConnectPeer(number, broker_id))
        return end

    def ready(self, lines: list[str]) -> None:
        self._send(ProcessReady(lines))

    def keep_companion(self, companion: KeepCompanion) -> None:
        self._send(companion)


def _holds_of(granted: list[HeldPartition]) -> Holds:
    return {each.partition: Hold(ShutdownKind(each.stop), each.topic_id) for each in granted}


class HubConnection(ClusterConnection):
    is_alone = True

    def __init__(self, session: HubSession, process: NodeProcess, *, removes_deleted: bool) -> None:
        super().__init__(session, session)
        self.session = self.holds = session
        self.process = process
        self.removes_deleted = removes_deleted

    async def open(self, cluster_id: str | None, folder_id: str | None) -> None:
        """The session is started with the process."""

    def serves_with(self, image: MetadataImage, deltas: Collection[Delta]) -> None:
        self.session.applied(image.offset)
