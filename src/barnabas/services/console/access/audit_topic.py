"""The audit log in a topic: a copy for those who collect them. The file is what counts."""

from __future__ import annotations

import asyncio

from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError
from barnabas.client.producer import Producer
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import limited_logger

log = limited_logger(__name__)

SEND_SECONDS = 5.0


class AuditTopic:
    """The topic must be there; the console's principal needs WRITE on it."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._producer: Producer | None = None

    async def send(self, line: bytes) -> None:
        """It is waited for; a topic that cannot be written holds a change up for some seconds, no longer."""
        if self._producer is None:
            self._producer = Producer(self._client)
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._producer.send(self._topic, line)
        except (ClientError, KafkaError, TimeoutError) as error:
            log.warning("An event of the audit log is missing in the topic %s: %s", self._topic, error)

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.close()
            self._producer = None
