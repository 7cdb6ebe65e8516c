"""Producer ids, in blocks from the controller (KIP-730; Kafka's RPCProducerIdManager)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.replication import AllocateProducerIdsRequest, AllocateProducerIdsResponse

AskController = Callable[[AllocateProducerIdsRequest], Awaitable[AllocateProducerIdsResponse]]


class ProducerIds:
    """`identity` says which broker asks: its id and its epoch."""

    def __init__(self, ask_controller: AskController, identity: Callable[[], tuple[int, int]]) -> None:
        self._ask_controller = ask_controller
        self._identity = identity
        self._block = range(0)

    @property
    def is_ready(self) -> bool:
        """Can the next id be taken without waiting?"""
        return len(self._block) > 0

    def take(self) -> int | None:
        """The next id; None when the block is used up and another must be waited for."""
        if not self._block:
            return None
        producer_id, self._block = self._block[0], self._block[1:]
        return producer_id

    async def refill(self) -> None:
        """Return when there are ids to take."""
        while not self._block:
            block = await self._allocate()
            if not self._block:  # else another request was faster; ids are plenty, this block is given up
                self._block = block

    async def _allocate(self) -> range:
        node_id, epoch = self._identity()
        try:
            response = await self._ask_controller(AllocateProducerIdsRequest(node_id, epoch))
            if response.error_code:
                raise KafkaError(ErrorCode(response.error_code))
        except KafkaError as error:
            # What Kafka answers: every client tries again.
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids can be had at the moment: {error}"
            ) from error
        return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)
