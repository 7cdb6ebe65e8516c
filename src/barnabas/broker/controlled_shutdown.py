"""Controlled shutdown: a stopping broker hands its leaderships to other brokers first, so clients see no errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from barnabas.cluster import Membership, MetadataFollower
from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.network import SocketServer
from barnabas.protocol.messages.replication import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.replication import BrokerIdentity

logger = safe_logger(__name__)

# Long enough for a controller election or a ZooKeeper restart. A disconnected broker stops after CUT_OFF_SECONDS.
CUT_OFF_SECONDS = 2.0
TIMEOUT_SECONDS = 8.0
RETRY_SECONDS = 0.2
IN_FLIGHT_SECONDS = 10.0  # timeout for requests in flight
LEFT_ALONE_SECONDS = 1.0  # the same if the handover failed: acks=all requests might never complete
REDIRECT_SECONDS = 1.0  # period in which clients are redirected to the new leaders


class ControlledShutdown:
    """`ask_controller` sends a request to the controller."""

    def __init__(
        self,
        membership: Membership,
        metadata: MetadataFollower,
        *,
        identity: Callable[[], BrokerIdentity],
        image: Callable[[], MetadataImage],
        ask_controller: Callable[[Any], Awaitable[Any]],
    ) -> None:
        self._membership = membership
        self._metadata = metadata
        self._identity = identity
        self._image = image
        self._ask_controller = ask_controller

    async def run(self, sockets: SocketServer) -> float:
        """Move leadership to other brokers, and return the timeout in seconds for requests in flight."""
        if not await self.hand_over():
            return LEFT_ALONE_SECONDS
        await sockets.turn_away(REDIRECT_SECONDS)
        return IN_FLIGHT_SECONDS

    async def hand_over(self) -> bool:
        """Return True once no partition led here could be led by another broker, False on timeout or disconnection."""
        for seconds in (CUT_OFF_SECONDS, TIMEOUT_SECONDS):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._until_others_lead()
                return True
            if not self._membership.is_connected:
                break
        logger.warning("stopping although no other leaders could be elected")
        return False

    async def _until_others_lead(self) -> None:
        while not await self._ask():  # noqa: ASYNC110 - polls a remote broker
            await asyncio.sleep(RETRY_SECONDS)
        node_id = self._identity().broker_id
        await self._metadata.until(lambda image: image.brokers[node_id].shutting_down)

    async def _ask(self) -> bool:
        node_id, broker_epoch = self._identity()
        request = BrokerHeartbeatRequest(
            broker_id=node_id,
            broker_epoch=broker_epoch,
            current_metadata_offset=self._image().offset,
            want_shut_down=True,
        )
        try:
            response: BrokerHeartbeatResponse = await self._ask_controller(request)
        except KafkaError as error:
            logger.info("the controller does not respond: %s", error)
            return False
        if response.error_code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            return True
        # Partitions without another eligible leader are served until the end; waiting longer would not help.
        return not response.error_code
