"""Controlled shutdown: a stopping broker hands its leaderships to other brokers first, so clients see no errors."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol

from barnabas.cluster import Membership
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.config.broker import BrokerConfig
from barnabas.handlers import ForwardingNeeds, to_controller
from barnabas.network import SocketServer
from barnabas.protocol.messages.replication import BrokerHeartbeatRequest, BrokerHeartbeatResponse

logger = safe_logger(__name__)

# Long enough for a controller election or a ZooKeeper restart. A disconnected broker stops after CUT_OFF_SECONDS.
CUT_OFF_SECONDS = 2.0
TIMEOUT_SECONDS = 8.0
RETRY_SECONDS = 0.2
IN_FLIGHT_SECONDS = 10.0  # timeout for requests in flight
LEFT_ALONE_SECONDS = 1.0  # the same if the handover failed: acks=all requests might never complete
TURN_AWAY_SECONDS = 1.0  # period in which clients are redirected to the new leaders


class _Host(ForwardingNeeds, Protocol):
    @property
    def broker_epoch(self) -> int: ...

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def sockets(self) -> SocketServer: ...


async def controlled_shutdown(broker: _Host, membership: Membership) -> float:
    """Move leadership to other brokers, and return the timeout in seconds for requests in flight."""
    if not broker.config["controlled.shutdown.enable"]:
        return IN_FLIGHT_SECONDS
    if not await _hand_over(broker, membership):
        return LEFT_ALONE_SECONDS
    await broker.sockets.turn_away(TURN_AWAY_SECONDS)
    return IN_FLIGHT_SECONDS


async def _hand_over(broker: _Host, membership: Membership) -> bool:
    """Return True once no partition led here could be led by another broker, False on timeout or disconnection."""
    for seconds in (CUT_OFF_SECONDS, TIMEOUT_SECONDS):
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await _until_others_lead(broker)
            return True
        if not membership.is_connected:
            break
    logger.warning("stopping though other leaders could not be elected")
    return False


async def _until_others_lead(broker: _Host) -> None:
    while not await _ask(broker):  # noqa: ASYNC110 - polls a remote broker
        await asyncio.sleep(RETRY_SECONDS)
    await broker.metadata.until(lambda image: image.brokers[broker.node_id].shutting_down)


async def _ask(broker: _Host) -> bool:
    request = BrokerHeartbeatRequest(
        broker_id=broker.node_id,
        broker_epoch=broker.broker_epoch,
        current_metadata_offset=broker.image.offset,
        want_shut_down=True,
    )
    try:
        response: BrokerHeartbeatResponse = await to_controller(broker, request)
    except KafkaError as error:
        logger.info("the controller does not answer: %s", error)
        return False
    if response.error_code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
        return True
    # Partitions without another eligible leader are served until the end; waiting longer would not help.
    return not response.error_code
