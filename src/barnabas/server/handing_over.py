"""Controlled shutdown: what a broker leads is handed over before it stops, so that no client meets an error."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.cluster.membership import Membership
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log_lines import safe_logger
from barnabas.protocol.messages.replication import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.server.forwarding import to_controller

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

logger = safe_logger(__name__)

# A controller may be elected, and a ZooKeeper restarted, while we wait. Who is cut off waits only a moment for that.
CUT_OFF_SECONDS = 2.0
PATIENCE_SECONDS = 8.0
RETRY_SECONDS = 0.2


async def hand_over(broker: Broker, membership: Membership) -> bool:
    """Return when we lead nothing that somebody else could lead, or, with False, when there is no point in waiting."""
    for seconds in (CUT_OFF_SECONDS, PATIENCE_SECONDS):
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await _until_handed_over(broker)
            return True
        if not membership.is_connected:
            break
    logger.warning("stopping though leadership could not be handed over")
    return False


async def _until_handed_over(broker: Broker) -> None:
    while not await _ask(broker):  # noqa: ASYNC110 - it asks another broker, which nobody can signal
        await asyncio.sleep(RETRY_SECONDS)
    await broker.metadata.until(lambda image: image.brokers[broker.node_id].shutting_down)


async def _ask(broker: Broker) -> bool:
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
    # Partitions without an heir are served until the very end; waiting longer would not give them one.
    return not response.error_code
