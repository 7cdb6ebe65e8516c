"""Creates a cluster as large as that of kafbat#1776: topics, partitions and groups with committed offsets.

python -m benchmarks.clients.cluster_fill --bootstrap 127.0.0.1:9092 --topics 9000 --partitions 39000 --groups 2200
"""

import argparse
import asyncio

from barnabas.client.cluster import Client, raise_for
from barnabas.client.groups import ask_coordinator
from barnabas.client.producer import Producer
from barnabas.common.cooperative import pieces
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest

_TOPICS_AT_ONCE = 100
_TOPICS_OF_A_GROUP = 4
_RECORDS = 10


def topic_name(number: int) -> str:
    return f"orders.region-{number % 40}.events-{number}"


def partition_counts(topics: int, partitions: int) -> dict[str, int]:
    """Partitions by topic, distributed as evenly as possible."""
    return {
        topic_name(at): (at + 1) * partitions // topics - at * partitions // topics for at in range(topics)
    }


async def fill(bootstrap: str, topics: int, partitions: int, groups: int) -> None:
    counts = partition_counts(topics, partitions)
    async with Client(bootstrap, client_id="fill") as client:
        for names in pieces(counts, _TOPICS_AT_ONCE):
            requested = [
                CreatableTopic(name=name, num_partitions=counts[name], replication_factor=1) for name in names
            ]
            response = await client.send_to_controller(
                CreateTopicsRequest(topics=requested, timeout_ms=60_000)
            )
            for result in response.topics:
                if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise_for(result.error_code, result.error_message or "")
        names = list(counts)
        await _write(client, names[:: max(1, len(names) // 100)])
        ids = {name: topic.id for name, topic in (await client.all_topics()).items()}
        for number in range(groups):
            own = [names[(number * _TOPICS_OF_A_GROUP + at) % len(names)] for at in range(_TOPICS_OF_A_GROUP)]
            await _commit(client, f"billing-{number}", {name: (ids[name], counts[name]) for name in own})


async def _write(client: Client, names: list[str]) -> None:
    async with Producer(client) as producer:
        for name in names:
            for at in range(_RECORDS):
                await producer.send(name, b"record %d" % at)


async def _commit(client: Client, group: str, topics: dict[str, tuple[bytes, int]]) -> None:
    requested = [
        OffsetCommitRequestTopic(
            name=name,
            topic_id=topic_id,
            partitions=[
                OffsetCommitRequestPartition(partition_index=at, committed_offset=0) for at in range(count)
            ],
        )
        for name, (topic_id, count) in topics.items()
    ]

    def check(response: object) -> None:
        """Ignore errors: a missing commit shows up in the sampler."""

    await ask_coordinator(client, group, OffsetCommitRequest(group_id=group, topics=requested), check)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    for name in ("topics", "partitions", "groups"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    asyncio.run(fill(options.bootstrap, options.topics, options.partitions, options.groups))


if __name__ == "__main__":
    main()
