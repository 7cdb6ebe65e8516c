"""In-memory substitute for ZooKeeper, shared by the brokers of one process, for tests and the simulator.

Each broker has a session. A session can be disconnected and reconnected; if it stays disconnected for longer than its
timeout, it expires: the broker is considered dead, and if it was the controller, another one is elected. The broker
detects the expiry by its own clock. A broker whose process is paused (`freeze`) detects it when it resumes.

Callbacks run in the context in which the session was created, so that the simulator can attribute them to a broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import msgspec

from barnabas.cluster import (
    BrokerInfo,
    Brokers,
    ClusterConnection,
    Elected,
    MetadataEntry,
    OnEntry,
    StaleControllerError,
    Told,
)
from barnabas.cluster.deltas import Delta, apply
from barnabas.cluster.image import EMPTY_IMAGE, NO_CONTROLLER, MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError

Later = Callable[[float, Callable[[], None]], object]


class MemoryCluster:
    """Server side: metadata log, live brokers, controller election."""

    def __init__(self, session_timeout: float = 6.0, delay: Callable[[], float] = lambda: 0.0) -> None:
        self.session_timeout = session_timeout
        self.delay = delay
        self.entries: list[MetadataEntry] = []
        self.controller_id = NO_CONTROLLER
        self.controller_epoch = 0
        self.brokers: Brokers = {}
        self._sessions: list[MemorySession] = []
        self._last_epoch = 0

    def connect(self, broker_id: int) -> MemorySession:
        """Open a session for one run of a broker."""
        session = MemorySession(self, broker_id)
        self._sessions.append(session)
        return session

    def next_epoch(self) -> int:
        self._last_epoch += 1
        return self._last_epoch

    def append(self, image_offset: int, controller_epoch: int, deltas: list[Delta]) -> int:
        if image_offset != len(self.entries):
            raise StaleControllerError(f"the log is at {len(self.entries)}, not at {image_offset}")
        if controller_epoch != self.controller_epoch:
            raise StaleControllerError(f"controller epoch {controller_epoch} is over")
        self.entries.append(MetadataEntry(image_offset + 1, controller_epoch, list(deltas)))
        for session in list(self._sessions):
            session.catch_up()
        return image_offset + 1

    def expire(self, session: MemorySession) -> None:
        """Remove a session with its registration and controller role."""
        if session not in self._sessions:
            return
        self._sessions.remove(session)
        info = self.brokers.get(session.broker_id)
        if info is not None and info.epoch == session.epoch:
            del self.brokers[session.broker_id]
            self.notify_brokers()
        if session.is_controller:
            session.is_controller = False
            self.controller_id = NO_CONTROLLER
            self.elect()

    def elect(self) -> None:
        if self.controller_id == NO_CONTROLLER:
            candidate = next((one for one in self._sessions if one.campaigns and one.is_connected), None)
            if candidate is not None:
                self.controller_epoch += 1
                self.controller_id = candidate.broker_id
                candidate.elected(self.controller_epoch)

    def step_down(self, session: MemorySession) -> None:
        """Resign as controller; the other candidates take precedence in the election."""
        if session.is_controller and session in self._sessions:
            session.is_controller = False
            self.controller_id = NO_CONTROLLER
            self._sessions.remove(session)
            self._sessions.append(session)
            self.elect()

    def notify_brokers(self) -> None:
        for session in list(self._sessions):
            session.notify_brokers()

    def renew(self, session: MemorySession) -> None:
        """Start a new session of the same client after an expiry."""
        if session not in self._sessions:
            self._sessions.append(session)
            session.notify_brokers()
            self.elect()


class MemorySession:
    """Client side of one broker: implements `MetadataStore` and `Membership`."""

    wants_snapshot = False

    def __init__(self, cluster: MemoryCluster, broker_id: int) -> None:
        self.broker_id = broker_id
        self.epoch = -1
        self.campaigns = False
        self.is_controller = False
        self.is_connected = True
        self.is_fenced = False
        self._cluster = cluster
        self._read = 0
        self._on_entry: OnEntry | None = None
        self._on_elected: Elected | None = None
        self._on_resigned: Told | None = None
        self._on_brokers: Callable[[Brokers], None] | None = None
        self._on_fenced: list[Told] = []
        self._healed: asyncio.Event = asyncio.Event()
        self._cuts = 0
        self._is_closed = False
        self._is_frozen = False
        self._was_lost = False
        self._was_controller = False
        self._context = copy_context()

    @property
    def connection(self) -> ClusterConnection:
        return ClusterConnection(self, self)

    # -- fault injection ----------------------------------------------------------------------------

    def cut(self) -> None:
        """Disconnect from the coordinator; both sides start the session timeout."""
        self.is_connected = False
        self._healed.clear()
        self._cuts += 1
        cuts = self._cuts
        loop = asyncio.get_running_loop()
        loop.call_later(self._cluster.session_timeout, lambda: self._expire_if_still_cut(cuts))

    def heal(self) -> None:
        if self._is_closed or self._was_lost:
            return
        self.is_connected = True
        self._cluster.renew(self)
        self._healed.set()
        self.catch_up()
        self.notify_brokers()
        self._cluster.elect()

    def expire(self) -> None:
        """Expire the session of a live broker, as after a long pause or a failure of the coordinator."""
        self._lose()
        self._cluster.renew(self)

    def _expire_if_still_cut(self, cuts: int) -> None:
        if not self.is_connected and self._cuts == cuts:
            self._lose()

    def freeze(self) -> None:
        """Pause the broker's process: it can neither renew its session nor detect its expiry."""
        self._is_frozen = True
        self.cut()

    def thaw(self) -> None:
        """Resume the process; it is notified of missed events after a short delay."""
        self._is_frozen = False
        if self._was_lost:
            self._later(self._wake_up)
        else:
            self.heal()

    def _wake_up(self) -> None:
        if not self._was_lost or self._is_frozen:  # it was suspended again meanwhile: once, at the end
            return
        self._was_lost = False
        if not self._is_closed:
            self._notify_loss()
            self.heal()

    def _lose(self) -> None:
        self._was_controller = self.is_controller
        self._cluster.expire(self)
        if self._is_closed:
            return
        if self._is_frozen:
            self._was_lost = True
        else:
            self._notify_loss()

    def _notify_loss(self) -> None:
        self.is_fenced = True
        if self._was_controller and self._on_resigned is not None:
            self._run_callback(self._on_resigned)
        for callback in self._on_fenced:
            self._run_callback(callback)

    def _run_callback(self, callback: Callable[..., object], *arguments: Any) -> None:
        self._context.copy().run(callback, *arguments)

    def _later(self, callback: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self._cluster.delay(), callback, context=self._context)

    # -- MetadataStore ------------------------------------------------------------------------------

    async def load(self) -> MetadataImage:
        await self._connected()
        image = EMPTY_IMAGE
        for entry in self._cluster.entries:
            image = apply(image, entry.deltas)
        self._read = image.offset
        return image

    async def append(self, image_offset: int, controller_epoch: int, deltas: list[Delta]) -> int:
        await asyncio.sleep(self._cluster.delay())
        self._check_connected()
        offset = self._cluster.append(image_offset, controller_epoch, deltas)
        await asyncio.sleep(self._cluster.delay())
        self._check_connected()  # otherwise the entry is in the log, but the writer gets an error
        return offset

    async def head(self) -> int:
        await asyncio.sleep(self._cluster.delay())
        self._check_connected()
        return len(self._cluster.entries)

    def follow(self, on_entry: OnEntry) -> None:
        self._on_entry = on_entry
        self.catch_up()

    def catch_up(self) -> None:
        """Deliver new entries in order, unless disconnected."""
        if self._on_entry is not None and self.is_connected and not self._is_closed:
            self._later(self._notify_entries)

    def _notify_entries(self) -> None:
        while self._on_entry is not None and self.is_connected and self._read < len(self._cluster.entries):
            entry = self._cluster.entries[self._read]
            self._read += 1
            self._on_entry(entry.offset, entry.deltas)

    async def save_snapshot(self, image: MetadataImage) -> None:
        """No-op: the full log is kept."""

    async def close(self) -> None:
        self.vanish()

    def vanish(self) -> None:
        """Simulate the death of the process: no more callbacks, and the session times out."""
        if not self._is_closed:
            self._is_closed = True
            self.cut()

    # -- Membership ---------------------------------------------------------------------------------

    async def join(self, info: BrokerInfo) -> int:
        await self._connected()
        self.epoch = self._cluster.next_epoch()
        self._cluster.brokers[info.id] = msgspec.structs.replace(info, epoch=self.epoch)
        self.is_fenced = False
        self._cluster.notify_brokers()
        return self.epoch

    async def leave(self) -> None:
        self._is_closed = True
        self._cluster.expire(self)

    def campaign(self, on_elected: Elected, on_resigned: Told) -> None:
        self._on_elected, self._on_resigned = on_elected, on_resigned
        self.campaigns = True
        self._cluster.elect()

    def step_down(self) -> None:
        if self._on_resigned is not None:
            self._run_callback(self._on_resigned)
        self._cluster.step_down(self)

    def elected(self, epoch: int) -> None:
        self.is_controller = True
        if self._on_elected is not None:
            self._run_callback(self._on_elected, epoch)

    def on_brokers_changed(self, callback: Callable[[Brokers], None]) -> None:
        self._on_brokers = callback
        self.notify_brokers()

    def notify_brokers(self) -> None:
        if self._on_brokers is not None and self.is_connected and not self._is_closed:
            self._later(self._notify_brokers_now)

    def _notify_brokers_now(self) -> None:
        if self._on_brokers is not None and self.is_connected and not self._is_closed:
            self._on_brokers(dict(self._cluster.brokers))

    def on_fenced(self, callback: Told) -> None:
        self._on_fenced.append(callback)

    async def _connected(self) -> None:
        await asyncio.sleep(self._cluster.delay())
        if not self.is_connected:
            await self._healed.wait()

    def _check_connected(self) -> None:
        if not self.is_connected:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the coordinator cannot be reached")
