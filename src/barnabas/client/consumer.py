"""Consumer of explicitly assigned partitions, without a group; the caller manages positions."""

from __future__ import annotations

from barnabas.client.fetcher import Fetcher
from barnabas.client.offsets import READ_COMMITTED
from barnabas.client.opening import ConsumedRecord, open_batches
from barnabas.common.errors import KafkaError


class Consumer(Fetcher):
    """Decodes what its Fetcher returns."""

    async def poll(self, timeout_seconds: float = 1.0) -> list[ConsumedRecord]:
        """Records of the first leaders that respond; empty on timeout."""
        committed_only = self.settings.isolation == READ_COMMITTED
        fetched = await self.fetch(timeout_seconds)
        records: list[ConsumedRecord] = []
        try:
            for answer in fetched:
                records += open_batches(answer, committed_only=committed_only).records
        except KafkaError:  # a damaged batch must not be skipped by the next call
            for answer in fetched:
                self.seek(answer.partition, answer.fetch_offset)
            raise
        return records
