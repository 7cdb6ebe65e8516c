"""Cost of partitions in a real cluster: `python -m benchmarks.scale_cluster`. The figures are in docs/scale.md.

Three brokers and a ZooKeeper as processes; topics of a thousand partitions with three replicas are added one by one,
and finally a broker that is not the controller is killed. Memory and CPU are those of one broker process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from barnabas.cli.cluster.local_cluster import BrokerChild, LocalCluster
from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.common.types import TopicPartition
from benchmarks.subjects.processes import cpu_seconds, resident_bytes

TOPICS = 3
PARTITIONS_OF_A_TOPIC = 1000
REST_SECONDS = 10.0
DEADLINE = 120.0
POLL_SECONDS = 0.1
GIGABYTE = 1_000_000_000
RECORD_BYTES = 1000


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(3, Path(folder), "127.0.0.1", 0, {"zookeeper.session.timeout.ms": "6000"}) as cluster,
    ):
        asyncio.run(measure(cluster))


async def measure(cluster: LocalCluster) -> None:
    watched = cluster.brokers[0]
    print("| partitions | created after s | CPU of the broker s | resident MB | CPU at rest |")
    print("|---|---|---|---|---|")
    async with Client(cluster.bootstrap_servers) as client:
        produced = await cost_of_replication(cluster, client)
        print(f"| 0 | - | - | {megabytes(watched)} | {await rest(watched):.1%} |")
        for number in range(TOPICS):
            began, cpu = time.monotonic(), cpu_seconds(watched.pid)
            await admin.create_topic(
                client, f"topic-{number}", partitions=PARTITIONS_OF_A_TOPIC, replication_factor=3
            )
            await until_in_sync(client)
            took, cost = time.monotonic() - began, cpu_seconds(watched.pid) - cpu
            count = (number + 1) * PARTITIONS_OF_A_TOPIC
            print(
                f"| {count:,} | {took:.1f} | {cost:.1f} | {megabytes(watched)} | {await rest(watched):.1%} |"
            )
        await kill_one(cluster, client)
    print(produced)


async def cost_of_replication(cluster: LocalCluster, client: Client) -> str:
    """CPU time of the leader and of a follower while a gigabyte is produced with acks=all to one partition."""
    await admin.create_topic(client, "written", partitions=1, replication_factor=3)
    leader = await client.leader(TopicPartition("written", 0))
    before = {broker.node_id: cpu_seconds(broker.pid) for broker in cluster.brokers}
    await asyncio.to_thread(produce, cluster.bootstrap_servers, "written")
    spent = {broker.node_id: cpu_seconds(broker.pid) - before[broker.node_id] for broker in cluster.brokers}
    follower = max(seconds for node_id, seconds in spent.items() if node_id != leader)
    return f"1 GB in records of 1 KB, acks=all: {spent[leader]:.1f} s CPU on the leader, {follower:.1f} s on a follower"


def produce(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.size": 131_072})
    value = os.urandom(RECORD_BYTES)
    for _ in range(GIGABYTE // RECORD_BYTES):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(DEADLINE):
        raise TimeoutError(f"not everything is acknowledged after {DEADLINE:g} s")


async def kill_one(cluster: LocalCluster, client: Client) -> None:
    victim = next(one for one in cluster.brokers if one.node_id != client.metadata.controller_id)
    led_count = sum(leader == victim.node_id for leader in await leaders(client))
    began = time.monotonic()
    os.kill(victim.pid, signal.SIGKILL)
    while {victim.node_id, -1} & set(await leaders(client)):  # noqa: ASYNC110 (the protocol has no notification)
        await asyncio.sleep(POLL_SECONDS)
    took = time.monotonic() - began
    print(f"a broker that led {led_count:,} partitions was killed: all are led by others after {took:.1f} s")


async def leaders(client: Client) -> list[int]:
    topics = await client.retry(client.all_topics)  # the request may go to the broker being killed
    return [partition.leader for topic in topics.values() for partition in topic.partitions.values()]


async def until_in_sync(client: Client) -> None:
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        topics = await client.all_topics()
        found = [partition for topic in topics.values() for partition in topic.partitions.values()]
        if found and all(len(partition.isr) == len(partition.replicas) for partition in found):
            return
        await asyncio.sleep(POLL_SECONDS)
    raise TimeoutError(f"not all replicas are in sync after {DEADLINE:g} s")


async def rest(broker: BrokerChild) -> float:
    """Share of a core used by an idle broker."""
    await asyncio.sleep(1)
    before = cpu_seconds(broker.pid)
    await asyncio.sleep(REST_SECONDS)
    return (cpu_seconds(broker.pid) - before) / REST_SECONDS


def megabytes(broker: BrokerChild) -> str:
    return f"{resident_bytes(broker.pid) / 1e6:.0f}"


if __name__ == "__main__":
    main()
