"""This broker as a member of its cluster: it joins, is cut off, and joins again.

    joining --registered by the controller--> in service --session lost--> fenced --registered again--> in service

While it is fenced another broker may lead what it led: reads go on, nothing is written or coordinated.
"""

from __future__ import annotations

import asyncio
import platform
from typing import Protocol

from barnabas.cluster import BrokerInfo, Membership, MetadataFollower
from barnabas.cluster.features import Levels
from barnabas.cluster.image import Endpoint, MetadataImage
from barnabas.common.safe_logging import safe_logger
from barnabas.config.broker import BrokerConfig
from barnabas.controller import check_supported
from barnabas.network import Listener
from barnabas.replication import ReplicaManager

logger = safe_logger(__name__)

REGISTRATION_SECONDS = 5.0  # how long a registration may take before we look whether the session still lives
REFUSED_SECONDS = 5.0  # until we ask again after we were refused


class _Host(Protocol):
    """What a member's life needs of the broker, and changes in it."""

    broker_epoch: int
    is_fenced: bool

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def listeners(self) -> list[Listener]: ...
    @property
    def metadata(self) -> MetadataFollower: ...
    @property
    def node_id(self) -> int: ...
    @property
    def replicas(self) -> ReplicaManager: ...
    @property
    def supported_features(self) -> Levels: ...
    def use(self, image: MetadataImage) -> None: ...
    def follow_leadership(self) -> None: ...


class BrokerLifecycle:
    def __init__(self, broker: _Host, membership: Membership) -> None:
        self._broker = broker
        self._membership = membership
        self._rejoining: asyncio.Task[None] | None = None
        self.refusal: str | None = None
        """Why this broker is not let in again, while it is not."""

    async def join(self, *, clean: bool) -> None:
        """Be alive, and wait until the controller has registered us."""
        broker, info = self._broker, self._info(clean)
        self._check_features()
        broker.broker_epoch = await self._membership.join(info)
        while not self._is_registered(broker.metadata.image):
            try:
                async with asyncio.timeout(REGISTRATION_SECONDS):
                    await broker.metadata.until(self._is_registered)
            except TimeoutError:
                logger.warning("no controller has registered this broker yet")
                self._check_features()  # it will not, if the cluster has gone beyond us meanwhile
                if self._membership.is_fenced:  # it never will: that session is gone
                    broker.broker_epoch = await self._membership.join(info)
        broker.use(broker.metadata.image)

    def watch(self) -> None:
        """Look out for the loss of our session from now on."""
        self._membership.on_fenced(self._fenced)
        if self._membership.is_fenced:
            self._fenced()

    def stop(self) -> None:
        if self._rejoining is not None:
            self._rejoining.cancel()

    def _info(self, clean: bool) -> BrokerInfo:
        broker = self._broker
        return BrokerInfo(
            broker.node_id,
            host=broker.config["barnabas.host"] or platform.node(),
            rack=broker.config["broker.rack"],
            endpoints=tuple(
                Endpoint(listener.name, *_registered_address(listener)) for listener in broker.listeners
            ),
            features=dict(broker.supported_features),
            clean=clean,
        )

    def _check_features(self) -> None:
        check_supported(self._broker.metadata.image, self._broker.node_id, self._broker.supported_features)

    def _is_registered(self, image: MetadataImage) -> bool:
        known = image.brokers.get(self._broker.node_id)
        return known is not None and known.epoch >= self._broker.broker_epoch

    def _fenced(self) -> None:
        logger.error(
            "the session of this broker is lost: no records are accepted until it is registered again"
        )
        broker = self._broker
        broker.is_fenced = True
        broker.replicas.fence()
        broker.follow_leadership()
        if self._rejoining is None:
            self._rejoining = asyncio.ensure_future(self._rejoin())

    async def _rejoin(self) -> None:
        while True:
            try:
                await self.join(clean=True)  # the process lived on, and has lost nothing
            except Exception as error:
                # Another process has our id, or we lack the rights. That may be corrected while we wait.
                self.refusal = str(error) or repr(error)
                logger.critical(
                    "this broker cannot join its cluster again and serves nothing: %s", self.refusal
                )
                await asyncio.sleep(REFUSED_SECONDS)
                continue
            if not self._membership.is_fenced:
                break
        self.refusal = None
        broker = self._broker
        broker.is_fenced = False
        self._rejoining = None
        broker.replicas.unfence()
        broker.follow_leadership()


def _registered_address(listener: Listener) -> tuple[str, int]:
    """What other brokers are told; a listener on all interfaces needs advertised.listeners for that."""
    return listener.advertised_address or (listener.host or "127.0.0.1", listener.port)
