"""Decisions of the hub, without I/O: members, controller, holds.

A session is one run of a process, numbered by the supervisor. Methods return the messages to send, in order.

    hold    free --request--> held --release, end of the session--> free, or held by the first session that waits

How a partition was closed decides how much of its log the next holder checks:

    released            clean
    session ended       killed, unless the session has closed it in order before
    not open since the node started: as the node stopped. After a crash this stays so until a session reports that it
    has recovered its partitions: if it is killed before, the next one must check as much as it did
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from barnabas.cluster.hub.messages import (
    UNASKED,
    ElectedController,
    HeldPartition,
    HoldsGranted,
    NodeMembers,
    ToProcess,
)
from barnabas.cluster.membership import BrokerInfo
from barnabas.common.types import TopicPartition, Uuid
from barnabas.log.recovery import ShutdownKind

CLEAN, KILLED, CRASHED = (each.value for each in ShutdownKind)

Outgoing = list[tuple[int, ToProcess]]
"""Session and message."""


@dataclass(slots=True)
class _Session:
    info: BrokerInfo | None = None
    is_candidate: bool = False
    closed: frozenset[TopicPartition] = frozenset()
    noted: set[TopicPartition] = field(default_factory=set)
    """Partitions that it holds and has sent checkpoint entries of: it has them open."""
    holds: dict[TopicPartition, bool] = field(default_factory=dict)
    """The value is True while the partition may not have been recovered since the node started."""


class HubState:
    """`node_stop` says how the node stopped. `topic_id` returns a partition's topic id in the newest metadata."""

    def __init__(
        self,
        *,
        topic_id: Callable[[TopicPartition], Uuid | None] = lambda partition: None,
        node_stop: str = CLEAN,
        broker_epoch: int = 0,
        controller_epoch: int = 0,
    ) -> None:
        self._node_stop = node_stop
        self._topic_id = topic_id
        self._broker_epoch = broker_epoch
        self.controller_epoch = controller_epoch
        self.controller: int | None = None
        self._sessions: dict[int, _Session] = {}
        self._holders: dict[TopicPartition, int] = {}
        self._waiting: dict[TopicPartition, deque[int]] = {}
        self._stops: dict[TopicPartition, str] = {}

    # -- sessions and members -----------------------------------------------------------------------

    def begin(self, session: int) -> None:
        self._sessions[session] = _Session()

    def end(self, session: int) -> Outgoing:
        """The process has ended: its membership, its controller role and its holds end."""
        ended = self._sessions.pop(session)
        for waiting in self._waiting.values():
            if session in waiting:
                waiting.remove(session)
        self._waiting = {each: waiting for each, waiting in self._waiting.items() if waiting}
        messages = self._members_changed() if ended.info is not None else []
        if self.controller == session:
            messages += self._elect()
        for partition, is_unrecovered in ended.holds.items():
            if partition in ended.closed:
                self._stops[partition] = CLEAN
            elif not (is_unrecovered and self._node_stop == CRASHED):
                self._stops[partition] = KILLED
            del self._holders[partition]
        return messages + self._grant(ended.holds)

    def join(self, session: int, info: BrokerInfo, head: int) -> tuple[int, Outgoing]:
        """Register a broker; return its epoch, which is above all earlier ones and above the head of the log."""
        self._broker_epoch = max(self._broker_epoch, head) + 1
        self._sessions[session].info = msgspec.structs.replace(info, epoch=self._broker_epoch)
        return self._broker_epoch, self._members_changed()

    def leave(self, session: int) -> Outgoing:
        self._sessions[session].info = None
        self._sessions[session].is_candidate = False
        messages = self._members_changed()
        if self.controller == session:
            messages += self._elect()
        return messages

    @property
    def members(self) -> list[BrokerInfo]:
        return [each.info for each in self._sessions.values() if each.info is not None]

    def session_of(self, broker_id: int) -> int | None:
        found = (number for number, each in self._sessions.items() if each.info and each.info.id == broker_id)
        return next(found, None)

    def _members_changed(self) -> Outgoing:
        message = NodeMembers(self.members)
        return [(number, message) for number, each in self._sessions.items() if each.is_candidate]

    # -- the controller -----------------------------------------------------------------------------

    def enter_election(self, session: int) -> Outgoing:
        self._sessions[session].is_candidate = True
        messages: Outgoing = [(session, NodeMembers(self.members))]
        return messages if self.controller is not None else messages + self._elect()

    def step_down(self, session: int) -> Outgoing:
        """Elect another candidate, or the same again if there is none."""
        if self.controller != session:
            return []
        self._sessions[session] = self._sessions.pop(session)  # the last one now
        return self._elect()

    def _elect(self) -> Outgoing:
        candidates = (number for number, each in self._sessions.items() if each.is_candidate)
        self.controller = next(candidates, None)
        if self.controller is None:
            return []
        self.controller_epoch += 1
        return [(self.controller, ElectedController(self.controller_epoch))]

    # -- holds --------------------------------------------------------------------------------------

    def request_holds(self, session: int, partitions: Iterable[TopicPartition], number: int) -> Outgoing:
        """Grant what is free, or held by the session already; it waits for the others."""
        granted = []
        for partition in dict.fromkeys(partitions):
            holder = self._holders.get(partition)
            if holder is None:
                self._give(session, partition)
            if holder in (None, session):
                granted.append(self.held(partition))
                continue
            waiting = self._waiting.setdefault(partition, deque())
            if session not in waiting:
                waiting.append(session)
        return [(session, HoldsGranted(granted, number))]

    def release(
        self, session: int, partitions: Iterable[TopicPartition], *, are_closed: bool = True
    ) -> Outgoing:
        """Free partitions, or stop waiting for them. Those that were not open stay as their last holder closed them."""
        released = []
        for partition in partitions:
            if self._holders.get(partition) == session:
                del self._holders[partition], self._sessions[session].holds[partition]
                self._sessions[session].noted.discard(partition)
                if are_closed:
                    self._stops[partition] = CLEAN
                released.append(partition)
            elif session in (waiting := self._waiting.get(partition, deque())):
                waiting.remove(session)
        return self._grant(released)

    def _grant(self, partitions: Iterable[TopicPartition]) -> Outgoing:
        granted: dict[int, list[HeldPartition]] = {}
        for partition in partitions:
            waiting = self._waiting.get(partition)
            if not waiting:
                continue
            session = waiting.popleft()
            if not waiting:
                del self._waiting[partition]
            self._give(session, partition)
            granted.setdefault(session, []).append(self.held(partition))
        return [(session, HoldsGranted(held, UNASKED)) for session, held in granted.items()]

    def held(self, partition: TopicPartition) -> HeldPartition:
        stop = self._stops.get(partition, self._node_stop)
        return HeldPartition(partition, stop, self._topic_id(partition))

    def _give(self, session: int, partition: TopicPartition) -> None:
        self._holders[partition] = session
        self._sessions[session].holds[partition] = partition not in self._stops

    def is_held_by(self, session: int, partition: TopicPartition) -> bool:
        return self._holders.get(partition) == session

    def note(self, session: int, partitions: Iterable[TopicPartition]) -> None:
        """The session has sent checkpoint entries of these."""
        held = (each for each in partitions if self._holders.get(each) == session)
        self._sessions[session].noted.update(held)

    def may_replace(self, session: int, partition: TopicPartition) -> bool:
        """True if the checkpoint entries of a partition are those that the session sends, or none.

        Between a grant and the opening, the entries are those of the last holder, and the session sends none.
        """
        return self._holders.get(partition) == session and partition in self._sessions[session].noted

    def held_by(self, session: int) -> Iterator[TopicPartition]:
        yield from self._sessions[session].holds

    def has_recovered(self, session: int) -> None:
        """All partitions that the session holds have been recovered since the node started."""
        each = self._sessions[session]
        each.holds = dict.fromkeys(each.holds, False)

    def close_in_order(self, session: int, partitions: Iterable[TopicPartition]) -> None:
        """The session has flushed and closed these, and opens nothing any more."""
        self._sessions[session].closed |= set(partitions)
