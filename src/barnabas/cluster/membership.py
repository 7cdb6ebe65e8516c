"""Which brokers are alive, and which is the controller: the second half of what ZooKeeper gives.

`LocalMembership` is that of one node: always elected, without others. `testing/in_memory_cluster.py` has one that
several brokers of one process share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import msgspec

from barnabas.cluster.image import Endpoint, MetadataImage
from barnabas.cluster.store import MetadataStore


class BrokerInfo(msgspec.Struct, frozen=True):
    """What a broker says of itself when it joins. The membership gives the epoch, one for each life.

    `clean` says that it lost nothing since it last served (controller/brokers.py has the rule).
    """

    id: int
    host: str = ""
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    features: dict[str, tuple[int, int]] = {}
    clean: bool = True
    epoch: int = -1


Brokers: TypeAlias = dict[int, BrokerInfo]
Elected: TypeAlias = Callable[[int], None]
Told: TypeAlias = Callable[[], None]


class Membership(Protocol):
    """All callbacks come on the event loop, in order."""

    async def join(self, info: BrokerInfo) -> int:
        """Be alive for the others; the broker epoch. Called again after `on_fenced`, it waits for a new session."""
        ...

    async def leave(self) -> None:
        """Be gone at once, without waiting for a timeout."""
        ...

    def campaign(self, on_elected: Elected, on_resigned: Told) -> None:
        """Become the controller whenever nobody else is; `on_elected` gets the controller epoch."""
        ...

    def step_down(self) -> None:
        """Be the controller no longer: others may try, and after a while we may again."""
        ...

    def on_brokers_changed(self, callback: Callable[[Brokers], None]) -> None:
        """Tell who is alive: soon, and at every change."""
        ...

    def on_fenced(self, callback: Told) -> None:
        """Tell when the session has been lost for longer than its timeout, by our own monotonic clock."""
        ...

    @property
    def is_fenced(self) -> bool: ...

    @property
    def is_connected(self) -> bool:
        """Have we heard from the others a moment ago? False long before we are fenced."""
        ...


class ClusterConnection:
    """What connects a broker to its cluster: the store of the metadata, and the membership."""

    def __init__(self, store: MetadataStore, membership: Membership) -> None:
        self.store = store
        self.membership = membership

    async def open(self, cluster_id: str | None, folder_id: str | None) -> None:
        """Begin the session, if there is one to begin. The ids are those in the broker's folders, None for new ones."""


class LocalMembership:
    """One node: it is elected as soon as it asks, and nobody else comes or goes."""

    is_fenced = False
    is_connected = True

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._on_brokers: Callable[[Brokers], None] | None = None
        self._on_elected: Elected | None = None

    async def join(self, info: BrokerInfo) -> int:
        # Greater than every epoch before: the entry that registers the broker has this offset or a later one.
        epoch = self._image().offset + 1
        if self._on_brokers is not None:
            self._on_brokers({info.id: msgspec.structs.replace(info, epoch=epoch)})
        return epoch

    async def leave(self) -> None:
        """There is no other broker to notify."""

    def campaign(self, on_elected: Elected, on_resigned: Told) -> None:
        self._on_elected = on_elected
        on_elected(self._image().controller_epoch + 1)

    def step_down(self) -> None:
        """There is nobody else: try again from the beginning."""
        if self._on_elected is not None:
            self._on_elected(self._image().controller_epoch + 1)

    def on_brokers_changed(self, callback: Callable[[Brokers], None]) -> None:
        self._on_brokers = callback

    def on_fenced(self, callback: Told) -> None:
        """A node alone cannot lose its session."""
