"""Checks of a running cluster from a client on this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.cli.doctor.finding import Finding, ok, problem, warning
from barnabas.cli.output import count
from barnabas.client import CannotConnectError, Client

if TYPE_CHECKING:
    from barnabas.client import BrokerMetadata, PartitionMetadata

CONNECT_SECONDS = 5.0
NAMED = 5  # partitions that a finding names


async def check_cluster(client: Client) -> list[Finding]:
    """Raises an error if the client is not allowed to describe the cluster."""
    try:
        start = time.perf_counter()
        topics = await client.all_topics()
        seconds = time.perf_counter() - start
    except CannotConnectError as error:
        first = error.address.split(",")[0]
        remedy = f"Start it (`barnabas serve --data DIR --listen {first}`), or give --bootstrap-server."
        return [problem("cluster", f"no broker answers at {error.address}: {error.reason}", remedy)]
    brokers = client.metadata.brokers.values()
    partitions = {
        f"{name}-{index}": partition
        for name, topic in topics.items()
        for index, partition in topic.partitions.items()
    }
    numbers = ", ".join(
        (count(len(brokers), "broker"), count(len(topics), "topic"), count(len(partitions), "partition"))
    )
    text = f"{numbers}; answers in {seconds * 1000:.0f} ms"
    reached = await asyncio.gather(*map(_reach, brokers))
    return [ok("cluster", text), *reached, *_replicas(partitions)]


async def _reach(broker: BrokerMetadata) -> Finding:
    """Check the advertised address: clients connect to it, not to the bootstrap address."""
    check, address = f"broker {broker.id}", broker.address
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except (OSError, TimeoutError) as error:
        reason = str(error) or f"no answer within {CONNECT_SECONDS:g} s"
        remedy = "Set advertised.listeners to an address that clients reach, and open the port in firewalls."
        return problem(check, f"advertises {address}, which cannot be connected from here: {reason}", remedy)
    writer.close()
    return ok(check, f"advertises {address}, which can be connected from here")


def _replicas(partitions: dict[str, PartitionMetadata]) -> Iterable[Finding]:
    offline = [name for name, partition in partitions.items() if partition.leader < 0]
    behind = [name for name, partition in partitions.items() if len(partition.isr) < len(partition.replicas)]
    if offline:
        yield problem(
            "partitions", f"without a leader: {_some(offline)}", "Start the brokers that hold them."
        )
    elif behind:
        remedy = "`barnabas cluster status` shows the brokers that are missing or behind."
        yield warning("partitions", f"under-replicated: {_some(behind)}", remedy)
    else:
        yield ok("partitions", "all have a leader, and all replicas are in sync")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(sorted(names)[:NAMED]) + more
