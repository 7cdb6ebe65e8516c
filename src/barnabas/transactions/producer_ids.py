"""Producer ids, in blocks from the controller (KIP-730; Kafka's RPCProducerIdManager)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.replication import AllocateProducerIdsRequest, AllocateProducerIdsResponse

AskController = Callable[[AllocateProducerIdsRequest], Awaitable[AllocateProducerIdsResponse]]


class ProducerIds:
    """`identity` returns the id and epoch of this broker."""

    def __init__(self, ask_controller: AskController, identity: Callable[[], tuple[int, int]]) -> None:
        self._ask_controller = ask_controller
        self._identity = identity
        self._block = range(0)

    @property
    def is_ready(self) -> bool:
        """True if the next id is available without waiting."""
        return len(self._block) > 0

    def take(self) -> int | None:
        """The next id; None if the block is exhausted."""
        if not self._block:
            return None
        producer_id, self._block = self._block[0], self._block[1:]
        return producer_id

    async def refill(self) -> None:
        """Return when ids are available."""
        while not self._block:
            block = await self._allocate()
            if not self._block:  # else a concurrent request was faster; this block is discarded
                self._block = block

    async def _allocate(self) -> range:
        node_id, epoch = self._identity()
        try:
            response = await self._ask_controller(AllocateProducerIdsRequest(node_id, epoch))
            if response.error_code:
                raise KafkaError(ErrorCode(response.error_code))
        except KafkaError as error:
            # Kafka's error: every client retries.
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids available: {error}"
            ) from error
        return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)
