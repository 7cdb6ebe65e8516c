"""Cluster membership of this broker: registration, fencing and re-registration.

    joining --registered by the controller--> in service --session lost--> fenced --registered again--> in service

While this broker is fenced, another one may lead its partitions: it serves reads, but neither writes nor coordinators.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable

from barnabas.cluster import BrokerInfo, Membership, MetadataFollower, NodeProcess
from barnabas.cluster.features import Levels
from barnabas.cluster.image import Endpoint, MetadataImage
from barnabas.common.safe_logging import safe_logger
from barnabas.config.broker import BrokerConfig
from barnabas.controller import check_supported
from barnabas.network import Listener
from barnabas.replication import BrokerIdentity

logger = safe_logger(__name__)

REGISTRATION_SECONDS = 5.0  # interval of session checks while waiting for the registration
REFUSED_SECONDS = 5.0  # retry interval after a refused registration


class BrokerLifecycle:
    """Holds the broker epoch. `config` returns the current settings."""

    def __init__(
        self,
        membership: Membership,
        metadata: MetadataFollower,
        listeners: list[Listener],
        config: Callable[[], BrokerConfig],
        features: Levels,
        process: NodeProcess | None = None,
    ) -> None:
        self._process = process
        self._membership = membership
        self._metadata = metadata
        self._listeners = listeners
        self._config = config
        self._features = features
        self._node_id = config().node_id
        self.broker_epoch = -1
        self.on_registered: Callable[[MetadataImage], None] = lambda image: None
        """Called with the image in which the controller has registered this broker."""
        self.on_fenced: Callable[[], None] = lambda: None
        self.on_unfenced: Callable[[], None] = lambda: None
        self._rejoining: asyncio.Task[None] | None = None
        self.refusal: str | None = None
        """Reason for the last failed attempt to rejoin; None after success."""

    def identity(self) -> BrokerIdentity:
        return BrokerIdentity(self._node_id, self.broker_epoch)

    async def join(self, *, clean: bool) -> None:
        """Open a session and wait until the controller has registered this broker."""
        info, metadata = self._info(clean), self._metadata
        self._check_features()
        self.broker_epoch = await self._membership.join(info)
        while not self._is_registered(metadata.image):
            try:
                async with asyncio.timeout(REGISTRATION_SECONDS):
                    await metadata.until(self._is_registered)
            except TimeoutError:
                logger.warning("no controller has registered this broker yet")
                self._check_features()  # raises if the cluster has been upgraded beyond this version
                if self._membership.is_fenced:  # the session has expired: open another one
                    self.broker_epoch = await self._membership.join(info)
        self.on_registered(metadata.image)

    def watch(self) -> None:
        """Start monitoring the session."""
        self._membership.on_fenced(self._fenced)
        if self._membership.is_fenced:
            self._fenced()

    def stop(self) -> None:
        if self._rejoining is not None:
            self._rejoining.cancel()

    def _info(self, clean: bool) -> BrokerInfo:
        config = self._config()
        return BrokerInfo(
            self._node_id,
            host=config["barnabas.host"] or platform.node(),
            rack=config["broker.rack"],
            endpoints=tuple(
                Endpoint(listener.name, *_registered_address(listener)) for listener in self._listeners
            ),
            features=dict(self._features),
            clean=clean,
            node=-1 if self._process is None else self._process.node,
            processes=1 if self._process is None else self._process.processes,
        )

    def _check_features(self) -> None:
        check_supported(self._metadata.image, self._node_id, self._features)

    def _is_registered(self, image: MetadataImage) -> bool:
        known = image.brokers.get(self._node_id)
        return known is not None and known.epoch >= self.broker_epoch

    def _fenced(self) -> None:
        logger.error(
            "the session of this broker has expired: no records are accepted until it is registered again"
        )
        self.on_fenced()
        if self._rejoining is None:
            self._rejoining = asyncio.ensure_future(self._rejoin())

    async def _rejoin(self) -> None:
        while True:
            try:
                await self.join(clean=True)  # the process kept running and has lost no records
            except Exception as error:
                # The broker id is in use, or permissions are missing. Keep trying: an operator may fix either.
                self.refusal = str(error) or repr(error)
                logger.critical("this broker cannot rejoin its cluster and remains fenced: %s", self.refusal)
                await asyncio.sleep(REFUSED_SECONDS)
                continue
            if not self._membership.is_fenced:
                break
        self.refusal = None
        self._rejoining = None
        self.on_unfenced()


def _registered_address(listener: Listener) -> tuple[str, int]:
    """Address registered for other brokers; a listener on all interfaces needs advertised.listeners."""
    return listener.advertised_address or (listener.host or "127.0.0.1", listener.port)
