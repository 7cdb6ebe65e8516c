"""Membership: the live brokers, and the election of the controller.

`LocalMembership` is for a single node, which is always the controller. `testing/in_memory_cluster.py` has one that is
shared by several brokers in one process; `zookeeper/membership.py` is for clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol, TypeAlias

import msgspec

from barnabas.cluster.deltas import Delta
from barnabas.cluster.image import Endpoint, MetadataImage
from barnabas.cluster.processes import HoldService, NodeProcess
from barnabas.cluster.store import MetadataStore


class BrokerInfo(msgspec.Struct, frozen=True):
    """Registration data of a broker. The membership assigns the epoch, a new one per registration.

    `clean` is True if the broker lost no records since it last served (see controller/brokers.py).
    """

    id: int
    host: str = ""
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    features: dict[str, tuple[int, int]] = {}
    clean: bool = True
    epoch: int = -1
    node: int = -1
    """Id of the first process of the node; -1 if the broker is the only process of its node."""
    processes: int = 1


Brokers: TypeAlias = dict[int, BrokerInfo]
Elected: TypeAlias = Callable[[int], None]
Told: TypeAlias = Callable[[], None]


class Membership(Protocol):
    """Callbacks are called on the event loop, in order."""

    async def join(self, info: BrokerInfo) -> int:
        """Register the broker and return its epoch. After `on_fenced`, call it again: it waits for a new session."""
        ...

    async def leave(self) -> None:
        """Unregister immediately, without waiting for a timeout."""
        ...

    def campaign(self, on_elected: Elected, on_resigned: Told) -> None:
        """Become the controller whenever there is none; `on_elected` is called with the controller epoch."""
        ...

    def step_down(self) -> None:
        """Resign as the controller. Other brokers may be elected first; later this one may be again."""
        ...

    def on_brokers_changed(self, callback: Callable[[Brokers], None]) -> None:
        """Call `callback` with the live brokers, soon after this call and after every change."""
        ...

    def on_fenced(self, callback: Told) -> None:
        """Call `callback` when the session was lost for longer than its timeout, by the local monotonic clock."""
        ...

    @property
    def is_fenced(self) -> bool: ...

    @property
    def is_connected(self) -> bool:
        """True if there was contact recently. False long before the broker is fenced."""
        ...


class ClusterConnection:
    """Metadata store and membership of a broker."""

    process: NodeProcess | None = None
    """Set if this is one of several processes of a node."""
    holds: HoldService | None = None
    removes_deleted = True
    """False if folders of deleted partitions may belong to other processes."""
    is_alone = False
    """True if no other node can join: replicas of partitions, if any, would be on the same disk."""

    def __init__(self, store: MetadataStore, membership: Membership) -> None:
        self.store = store
        self.membership = membership

    async def open(self, cluster_id: str | None, folder_id: str | None) -> None:
        """Start the session, if the membership has one. The ids are those of the log dirs; None if they are new."""

    def serves_with(self, image: MetadataImage, deltas: Collection[Delta]) -> None:
        """Called when the broker has applied an entry, from the time on when it serves."""


class LocalMembership:
    """Membership of a single node, which is elected immediately."""

    is_fenced = False
    is_connected = True

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._on_brokers: Callable[[Brokers], None] | None = None
        self._on_elected: Elected | None = None

    async def join(self, info: BrokerInfo) -> int:
        # Greater than all earlier epochs: the entry that registers the broker has this offset or a later one.
        epoch = self._image().offset + 1
        if self._on_brokers is not None:
            self._on_brokers({info.id: msgspec.structs.replace(info, epoch=epoch)})
        return epoch

    async def leave(self) -> None:
        """Nothing to do without other brokers."""

    def campaign(self, on_elected: Elected, on_resigned: Told) -> None:
        self._on_elected = on_elected
        on_elected(self._image().controller_epoch + 1)

    def step_down(self) -> None:
        """Start a new term immediately, as no other broker can be elected."""
        if self._on_elected is not None:
            self._on_elected(self._image().controller_epoch + 1)

    def on_brokers_changed(self, callback: Callable[[Brokers], None]) -> None:
        self._on_brokers = callback

    def on_fenced(self, callback: Told) -> None:
        """Never called: a single node has no session to lose."""
