"""Cluster membership of this broker: registration, fencing and re-registration.

    joining --registered by the controller--> in service --session lost--> fenced --registered again--> in service

While this broker is fenced, another one may lead its partitions: it serves reads, but neither writes nor coordinators.
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

REGISTRATION_SECONDS = 5.0  # interval of session checks while waiting for the registration
REFUSED_SECONDS = 5.0  # retry interval after a refused registration


class _Host(Protocol):
    """Parts of the broker used, and state changed, by the lifecycle."""

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
        """Reason for the last failed attempt to rejoin; None after success."""

    async def join(self, *, clean: bool) -> None:
        """Open a session and wait until the controller has registered this broker."""
        broker, info = self._broker, self._info(clean)
        self._check_features()
        broker.broker_epoch = await self._membership.join(info)
        while not self._is_registered(broker.metadata.image):
            try:
                async with asyncio.timeout(REGISTRATION_SECONDS):
                    await broker.metadata.until(self._is_registered)
            except TimeoutError:
                logger.warning("no controller has registered this broker yet")
                self._check_features()  # raises if the cluster has been upgraded beyond this version
                if self._membership.is_fenced:  # the session has expired: open another one
                    broker.broker_epoch = await self._membership.join(info)
        broker.use(broker.metadata.image)

    def watch(self) -> None:
        """Start monitoring the session."""
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
                await self.join(clean=True)  # the process kept running and has lost no records
            except Exception as error:
                # The broker id is in use, or permissions are missing. Keep trying: an operator may fix either.
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
    """Address registered for other brokers; a listener on all interfaces needs advertised.listeners."""
    return listener.advertised_address or (listener.host or "127.0.0.1", listener.port)
