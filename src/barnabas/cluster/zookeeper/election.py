"""Controller election: the controller is the broker that created the ephemeral node `/controller`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import msgspec

from barnabas.cluster.membership import Elected, Told
from barnabas.cluster.zookeeper.layout import CONTROLLER_EPOCH
from barnabas.cluster.zookeeper.polling import Poller
from barnabas.cluster.zookeeper.registration import ClusterIdentity
from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.types import (
    BadVersionError,
    Create,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
    Stat,
    ZNode,
)
from barnabas.common.safe_logging import safe_logger

logger = safe_logger(__name__)

CONTROLLER = "/controller"


class _Claim(msgspec.Struct):
    """Kafka's fields, and the owner (see ZooKeeperMembership)."""

    brokerid: int
    timestamp: str
    version: int = 2
    barnabas_owner: str = ""


def _owner_in(node: ZNode) -> str:
    try:
        return msgspec.json.decode(node.data, type=_Claim).barnabas_owner
    except msgspec.DecodeError:
        return ""


class Candidacy:
    """Creates `/controller` if it does not exist, and resigns if its node was removed."""

    def __init__(
        self,
        zk: ZooKeeper,
        node_id: int,
        identity: ClusterIdentity,
        owner: str,
        on_elected: Elected,
        on_resigned: Told,
    ) -> None:
        self._zk = zk
        self._node_id = node_id
        self._identity = identity
        self._owner = owner
        self._on_elected = on_elected
        self._on_resigned = on_resigned
        self._term: int | None = None
        """Transaction that created our `/controller`; None if another broker is the controller."""
        self._next_attempt_at = 0.0
        self.poller = Poller(self._poll, zk)

    def step_down(self) -> None:
        """Resign, delete the node, and give other brokers the chance to be elected first."""
        self._next_attempt_at = time.monotonic() + self._zk.session_timeout
        self.resign()
        self.poller.wake()

    def resign(self) -> None:
        if self._term is not None:
            self._term = None
            self._on_resigned()

    async def _poll(self, wake: Callable[[], None]) -> None:
        current = await self._zk.exists(CONTROLLER, wake)
        if current is not None and current.czxid == self._term:
            return
        self.resign()
        if self._zk.is_cut_off:
            return  # a reconnect wakes the poller
        if current is not None:
            await self._end_former_term(current)
        elif time.monotonic() >= self._next_attempt_at:
            await self._identity.check()  # never become the controller of another cluster
            await self._try_election()

    async def _end_former_term(self, current: Stat) -> None:
        """Delete a node of this broker: after resigning, after a create without a response, or of a former process."""
        with contextlib.suppress(NoNodeError, BadVersionError):
            node = await self._zk.get(CONTROLLER)
            if node.stat.owner == self._zk.session_id or _owner_in(node) == self._owner:
                await self._zk.delete(CONTROLLER, current.version)
                self.poller.wake()

    async def _try_election(self) -> None:
        epoch = await self._epoch()
        number = int(epoch.data) + 1 if epoch is not None else 1
        claim = msgspec.json.encode(
            _Claim(self._node_id, str(time.time_ns() // 1_000_000), barnabas_owner=self._owner)
        )
        operations: list[Operation] = [Create(CONTROLLER, claim, ephemeral=True, public=True)]
        text = str(number).encode()
        if epoch is None:
            operations.append(Create(CONTROLLER_EPOCH, text, public=True))
        else:
            operations.append(SetData(CONTROLLER_EPOCH, text, epoch.stat.version))
        try:
            await self._zk.multi(operations)
        except (NodeExistsError, BadVersionError):
            self.poller.wake()  # another broker was faster
            return
        await self._begin(number)

    async def _epoch(self) -> ZNode | None:
        try:
            return await self._zk.get(CONTROLLER_EPOCH)
        except NoNodeError:
            return None

    async def _begin(self, epoch: int) -> None:
        current = await self._zk.exists(CONTROLLER, self.poller.wake)
        if current is None or current.owner != self._zk.session_id or self._zk.is_cut_off:
            self.poller.wake()
            return
        self._term = current.czxid
        logger.info("broker %d is the controller, epoch %d", self._node_id, epoch)
        self._on_elected(epoch)
