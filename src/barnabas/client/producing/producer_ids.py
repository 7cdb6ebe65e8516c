"""Producer ids: brokers recognise a repeated batch by its id, epoch and sequence number."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.client.cluster import Client, raise_for
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse

NO_TIMEOUT_MS = 0x7FFFFFFF

# The broker has expired this producer id or fenced it: a new id is required.
PRODUCER_ID_IS_GONE = frozenset(
    {
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """Result of InitProducerId; -1 without idempotence."""

    producer_id: int = -1
    epoch: int = -1

    @property
    def is_idempotent(self) -> bool:
        return self.epoch >= 0


NO_PRODUCER_ID = ProducerIdentity()


async def init_producer_id(client: Client) -> ProducerIdentity:
    """Allocate an id for a non-transactional producer."""

    async def attempt() -> ProducerIdentity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=NO_TIMEOUT_MS)
        response: InitProducerIdResponse = await client.send_to_any(request)
        raise_for(response.error_code, "InitProducerId failed")
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    return await client.retry(attempt)
