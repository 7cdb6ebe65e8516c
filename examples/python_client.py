"""The Python client, from orders to invoices: docs/python-client.md.

    python -m examples.python_client localhost:9092

Orders are produced, billed exactly once (consuming and producing are one transaction), and counted from Arrow batches.
"""

from __future__ import annotations

import asyncio
import sys

from barnabas import Admin, AsyncProducer, Consumer, KafkaError, Producer

ORDERS, INVOICES = "example-orders", "example-invoices"


def create_topics(servers: str) -> None:
    with Admin(servers) as admin:
        for topic in (ORDERS, INVOICES):
            try:
                admin.create_topic(topic, partitions=3)
            except KafkaError as error:
                if error.code.name != "TOPIC_ALREADY_EXISTS":
                    raise


async def order(servers: str, count: int) -> None:
    async with AsyncProducer(servers) as producer:
        for number in range(count):
            await producer.send(ORDERS, f"order {number}", key=f"customer {number % 7}")


def bill(servers: str) -> int:
    """Write an invoice for each order; a crash in between neither loses nor repeats one."""
    billed = 0
    with (
        Consumer(
            servers,
            topics=ORDERS,
            group_id="example-billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
        Producer(servers, transactional_id="example-billing-1") as producer,
    ):
        while records := consumer.poll(timeout=3):
            with producer.transaction():
                for record in records:
                    producer.send(INVOICES, record.value.replace(b"order", b"invoice"), record.key)
                producer.send_offsets(consumer.positions(), consumer.group_metadata())
            billed += len(records)
    return billed


def count_invoices(servers: str) -> int:
    with Consumer(
        servers, topics=INVOICES, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        return sum(batch.num_rows for batch in consumer.batches(["value"], timeout=2))


def main(servers: str) -> None:
    create_topics(servers)
    asyncio.run(order(servers, 100))
    print("billed", bill(servers), "orders")
    print("invoices:", count_invoices(servers))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
