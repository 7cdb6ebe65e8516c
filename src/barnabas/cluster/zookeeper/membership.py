"""Live brokers and controller election, with ephemeral nodes in ZooKeeper.

    /brokers/ids/N        broker N is alive; the transaction that created the node is its broker epoch
    /controller           the current controller
    /controller_epoch     number of elections; changed together with /controller, in one multi

All nodes are read again after a reconnect and periodically; watches only make that earlier.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from barnabas.cluster.membership import BrokerInfo, Brokers, ClusterConnection, Elected, Told
from barnabas.cluster.zookeeper.election import Candidacy
from barnabas.cluster.zookeeper.polling import POLL_AGAIN, Poller
from barnabas.cluster.zookeeper.registration import (
    BROKERS,
    ClusterIdentity,
    decode_registration,
    encode_registration,
    owner_of,
    path_of,
)
from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.settings import zookeeper_settings
from barnabas.cluster.zookeeper.store import ZooKeeperMetadataStore
from barnabas.cluster.zookeeper.types import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    OutcomeUnknownError,
    SessionState,
    Wake,
    WipedZooKeeperError,
    ZooKeeperUnusableError,
)
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import new_uuid, uuid_to_text
from barnabas.config.broker import BrokerConfig

logger = safe_logger(__name__)


class DuplicateBrokerError(ZooKeeperUnusableError):
    """Another broker has the same node.id."""


class AddressTakenError(ZooKeeperUnusableError):
    """Another broker is registered with the same address."""


class ZooKeeperMembership:
    def __init__(
        self, zk: ZooKeeper, node_id: int, identity: ClusterIdentity, *, owner: str | None = None
    ) -> None:
        self._zk = zk
        self._node_id = node_id
        self._identity = identity
        self.owned_by(owner)
        self._joined_session: int | None = None
        self._own_sessions: set[int] = set()
        self._has_joined = False
        self._fenced_told = True
        self._on_fenced: list[Told] = []
        self._candidacy: Candidacy | None = None
        self._own_node: Poller | None = None
        self._pollers: list[Poller] = []
        zk.on_link.append(self._link_changed)
        zk.on_cut_off.append(lambda cut_off: self._notice_fencing())

    def owned_by(self, folder_id: str | None) -> None:
        """Set the id of the data folder; None for a new one.

        Only one process can hold the folder's lock, so another node with this owner is of a process that has ended,
        even if its session is still alive.
        """
        self._owner = folder_id or uuid_to_text(new_uuid())

    # -- registration -------------------------------------------------------------------------------

    @property
    def is_fenced(self) -> bool:
        return self._zk.is_cut_off or self._joined_session != self._zk.session_id

    @property
    def is_connected(self) -> bool:
        return not self._zk.is_silent

    def on_fenced(self, callback: Told) -> None:
        self._on_fenced.append(callback)

    async def join(self, info: BrokerInfo) -> int:
        """Register the broker; waits for a session, and for a former node of this broker to be removed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 2 * self._zk.session_timeout
        while True:
            try:
                await self._identity.check()
                if not self._has_joined:
                    check_addresses(info, await read_brokers(self._zk))
                return await self._register(info)
            except NodeExistsError:
                await self._make_room(late=loop.time() > deadline)
            except AddressTakenError:
                if loop.time() > deadline:
                    raise
                await asyncio.sleep(
                    POLL_AGAIN / 4
                )  # the other broker may have crashed, with its session expiring soon
            except OutcomeUnknownError as error:
                logger.warning("broker %d cannot join yet: %s", self._node_id, error)
                await asyncio.sleep(POLL_AGAIN / 10)
            except WipedZooKeeperError as error:
                if self._joined_session is None:
                    raise  # fail at startup; later, wait until an operator has fixed it
                logger.critical("%s", error)
                await asyncio.sleep(POLL_AGAIN)

    async def _register(self, info: BrokerInfo) -> int:
        session = self._zk.session_id
        self._own_sessions.add(session)  # first: a create without a response may have succeeded
        data = encode_registration(info, self._owner, time.time_ns() // 1_000_000)
        stat = await self._zk.create(path_of(self._node_id), data, ephemeral=True, public=True)
        self._own_sessions.add(stat.owner)
        if stat.owner != session:
            raise OutcomeUnknownError("the session changed while the broker was registered")
        self._joined_session = session
        self._has_joined = True
        self._fenced_told = False
        if self._own_node is None:
            self._own_node = Poller(self._check_own_node, self._zk)
            self._pollers.append(self._own_node)
        self._own_node.wake()
        return stat.czxid

    async def _make_room(self, late: bool) -> None:
        """Delete the node of a former session or process of this broker; wait or fail if it is of another broker."""
        try:
            node = await self._zk.get(path_of(self._node_id))
        except NoNodeError:
            return
        owner, address = owner_of(node)
        # After the first registration, the same folder id in a foreign session means that the folder was copied.
        is_former_process = owner == self._owner and not self._has_joined
        if is_former_process or node.stat.owner in self._own_sessions:
            with contextlib.suppress(NoNodeError, BadVersionError):
                await self._zk.delete(path_of(self._node_id), node.stat.version)
        elif late:
            raise DuplicateBrokerError(
                f"another broker with node.id {self._node_id} is running at {address}: use another node.id, or stop "
                "the other broker"
            )
        else:
            logger.info(
                "waiting for the session of the former broker %d at %s to end", self._node_id, address
            )
            await asyncio.sleep(POLL_AGAIN / 4)

    async def leave(self) -> None:
        """End the session, which deletes the ephemeral nodes immediately."""
        if self._candidacy is not None:
            self._candidacy.poller.stop()
        for poller in self._pollers:
            poller.stop()
        self._fenced_told = True
        await self._zk.close()

    def _link_changed(self, link: SessionState) -> None:
        self._notice_fencing()
        if link is SessionState.CONNECTED:
            for poller in self._pollers:
                poller.wake()

    def _notice_fencing(self) -> None:
        if self.is_fenced and not self._fenced_told:
            self._fenced_told = True
            logger.error("broker %d is cut off from ZooKeeper: fenced", self._node_id)
            if self._candidacy is not None:
                self._candidacy.resign()
            for tell in self._on_fenced:
                tell()

    async def _check_own_node(self, wake: Wake) -> None:
        """Fence the broker if its node was deleted or belongs to another session."""
        session = self._zk.session_id
        stat = await self._zk.exists(path_of(self._node_id), wake)
        if self._joined_session == session and (stat is None or stat.owner != session):
            self._joined_session = 0
            self._notice_fencing()

    # -- live brokers -------------------------------------------------------------------------------

    def on_brokers_changed(self, callback: Callable[[Brokers], None]) -> None:
        watch = _BrokersWatch(self._zk, callback)
        self._pollers.append(Poller(watch.poll, self._zk))

    # -- controller ---------------------------------------------------------------------------------

    def campaign(self, on_elected: Elected, on_resigned: Told) -> None:
        self._candidacy = Candidacy(
            self._zk, self._node_id, self._identity, self._owner, on_elected, on_resigned
        )
        self._pollers.append(self._candidacy.poller)

    def step_down(self) -> None:
        if self._candidacy is not None:
            self._candidacy.step_down()


class ZooKeeperConnection(ClusterConnection):
    """Connection to ZooKeeper; `newest_level` is the highest metadata level that the broker supports."""

    def __init__(self, config: BrokerConfig, newest_level: int) -> None:
        self._zk = ZooKeeper(zookeeper_settings(config))
        self._identity = ClusterIdentity(self._zk)
        self._membership = ZooKeeperMembership(self._zk, config.node_id, self._identity)
        super().__init__(ZooKeeperMetadataStore(self._zk, self._identity, newest_level), self._membership)

    async def open(self, cluster_id: str | None, folder_id: str | None) -> None:
        """Start a session. Raise ZooKeeperUnusableError if ZooKeeper cannot be reached or rejects the credentials."""
        self._identity.expected = cluster_id
        self._membership.owned_by(folder_id)
        await self._zk.start()


class _BrokersWatch:
    def __init__(self, zk: ZooKeeper, callback: Callable[[Brokers], None]) -> None:
        self._zk = zk
        self._callback = callback
        self._reported: Brokers | None = None

    async def poll(self, wake: Callable[[], None]) -> None:
        brokers = await read_brokers(self._zk, wake)
        if brokers != self._reported:
            self._reported = brokers
            self._callback(dict(brokers))


async def read_brokers(zk: ZooKeeper, wake: Wake | None = None) -> Brokers:
    await zk.ensure(BROKERS)
    ids = [int(name) for name in await zk.children(BROKERS, wake) if name.isdigit()]
    infos = await asyncio.gather(*(_read_broker(zk, broker_id) for broker_id in sorted(ids)))
    return {info.id: info for info in infos if info is not None}


async def _read_broker(zk: ZooKeeper, broker_id: int) -> BrokerInfo | None:
    try:
        return decode_registration(broker_id, await zk.get(path_of(broker_id)))
    except NoNodeError:
        return None  # deleted meanwhile; the watch triggers another read


def check_addresses(info: BrokerInfo, others: Brokers) -> None:
    """Raise AddressTakenError if another broker has one of the addresses: clients would confuse the two."""
    own = {(endpoint.host, endpoint.port) for endpoint in info.endpoints}
    for other in others.values():
        taken = sorted(own & {(endpoint.host, endpoint.port) for endpoint in other.endpoints})
        if other.id != info.id and taken:
            host, port = taken[0]
            raise AddressTakenError(
                f"broker {other.id} is already registered with {host}:{port}: set another address of one of them "
                "(--listen), or its real one (advertised.listeners)"
            )
