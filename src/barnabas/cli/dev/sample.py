"""Sample data of `barnabas dev`: orders and clicks of a small shop, written while it runs, and a group that reads."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
from datetime import UTC, datetime
from typing import Any

from barnabas.client import Client, FetchSettings, Producer, ProducerSettings
from barnabas.client.admin import create_topic
from barnabas.client.consuming import GroupConsumer
from barnabas.client.offsets import Start
from barnabas.common.errors import ErrorCode, KafkaError

ORDERS, CLICKS, GROUP = "orders", "clicks", "order-dashboard"
PARTITIONS = 3
# A forgotten `barnabas dev --data DIR` writes 5 KB a second: keep a day of it, and at most 200 MB.
CONFIGS = {"retention.ms": "86400000", "retention.bytes": str(32 << 20), "segment.bytes": str(16 << 20)}

TICK = 0.2  # seconds; each tick is one order and four clicks
READ_EVERY = 2.0
CLICKS_PER_ORDER = 4
RECORDS_PER_SECOND = round((1 + CLICKS_PER_ORDER) / TICK)

PRODUCTS = {"coffee": 12.5, "tea": 8.0, "mug": 9.9, "grinder": 89.0, "kettle": 49.0, "filter papers": 3.5}
COUNTRIES = ("DE", "FR", "PL", "US", "BR", "IN", "JP")
PAGES = ("/", "/search", "/cart", "/checkout", *(f"/products/{name.replace(' ', '-')}" for name in PRODUCTS))
DEVICES = ("phone", "phone", "laptop", "tablet")


class ShopSample:
    """Writes until `stop`. A record fails only if the broker stops: the topics are its own."""

    def __init__(self, client: Client, seed: int | None = None) -> None:
        self._client = client
        self._random = random.Random(seed)
        self._order_ids = itertools.count(int(datetime.now(UTC).timestamp()))
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        for topic in (ORDERS, CLICKS):
            await self._create(topic)
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()

    async def _create(self, topic: str) -> None:
        try:
            await create_topic(self._client, topic, partitions=PARTITIONS, configs=CONFIGS)
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    async def _write(self) -> None:
        async with Producer(self._client, ProducerSettings(linger=0.01)) as producer:
            while True:
                customer, order = self._order()
                await producer.enqueue(ORDERS, order, customer)
                for _ in range(CLICKS_PER_ORDER):
                    user, click = self._click()
                    await producer.enqueue(CLICKS, click, user)
                await asyncio.sleep(TICK)

    async def _read(self) -> None:
        """A group with committed offsets, so that `barnabas groups` and the console have one to show."""
        start, settings = Start("beginning"), FetchSettings()
        async with GroupConsumer(self._client, GROUP, [ORDERS], start, settings) as consumer:
            while True:
                with contextlib.suppress(KafkaError):
                    await consumer.poll()
                await asyncio.sleep(READ_EVERY)

    def _order(self) -> tuple[bytes, bytes]:
        customer = self._customer()
        product = self._random.choice(tuple(PRODUCTS))
        quantity = self._random.choice((1, 1, 1, 2, 3))
        return _encoded(
            customer,
            {
                "order_id": next(self._order_ids),
                "customer": customer,
                "product": product,
                "quantity": quantity,
                "amount": round(PRODUCTS[product] * quantity, 2),
                "country": self._random.choice(COUNTRIES),
                "ordered_at": _now(),
            },
        )

    def _click(self) -> tuple[bytes, bytes]:
        customer = self._customer()
        page, device = self._random.choice(PAGES), self._random.choice(DEVICES)
        return _encoded(
            customer, {"customer": customer, "page": page, "device": device, "clicked_at": _now()}
        )

    def _customer(self) -> str:
        return f"customer-{self._random.randint(1, 40)}"


def _encoded(key: str, value: dict[str, Any]) -> tuple[bytes, bytes]:
    return key.encode(), json.dumps(value).encode()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
