"""Members of a consumer group (KIP-848), each on a separate connection.

    python -m benchmarks.clients.consumer_members join --port P --group G --topic T --members 50
    python -m benchmarks.clients.consumer_members stay --port P --group G --topic T --members 500 --heartbeats 20000

`join`: time from the join of one more member to a stable group until all members have their target assignment. Members
send heartbeats far more often than consumers do, so that the broker is measured and not the heartbeat interval.
`stay`: members of a stable group send empty heartbeats; responses per second, and the CPU time of the broker (the
process `--pid`).
"""

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence

from barnabas.client.connection import BrokerConnection
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.consumer import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from benchmarks.subjects.processes import cpu_seconds

_VERSION = 1
# The coordinator of the group may still be loading its partition.
_NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_HEARTBEAT_SECONDS = 0.02
_REBALANCE_MS = 60_000
# Both brokers compute assignments at most once a second, which consecutive joins would measure.
_BETWEEN_ASSIGNMENTS_SECONDS = 1.2
_SETTLE_SECONDS = 120


class Member:
    """Follows the consumer protocol: reports its partitions, revokes and takes partitions as assigned."""

    def __init__(self, group: str, number: int, topic: str) -> None:
        self._request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=f"member-{number}",
            rebalance_timeout_ms=_REBALANCE_MS,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        self._connection: BrokerConnection | None = None
        self.epoch = 0
        self.partitions = 0

    async def open(self, port: int) -> "Member":
        self._connection = await BrokerConnection.connect("127.0.0.1", port)
        return self

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def beat(self) -> None:
        assert self._connection is not None
        response: ConsumerGroupHeartbeatResponse = await self._connection.send(self._request, _VERSION)
        if response.error_code in _NOT_YET:
            return
        if response.error_code:
            raise RuntimeError(f"heartbeat refused: {response.error_code} {response.error_message}")
        changed = response.assignment is not None or response.member_epoch != self.epoch
        self.epoch = response.member_epoch
        if response.assignment is not None:
            held = response.assignment.topic_partitions
            self.partitions = sum(len(one.partitions) for one in held)
            self._next(held)
        elif changed:
            self._next(None)

    def _next(self, held: list[ConsumerGroupHeartbeatTopicPartitions] | None) -> None:
        """Build the next heartbeat; `held` reports changed partitions, None an unchanged assignment."""
        self._request = ConsumerGroupHeartbeatRequest(
            group_id=self._request.group_id,
            member_id=self._request.member_id,
            member_epoch=self.epoch,
            topic_partitions=held,
        )


async def settle(members: Sequence[Member], partitions: int) -> None:
    """Send heartbeats until all partitions are assigned evenly and all members have the same epoch."""
    deadline = time.perf_counter() + _SETTLE_SECONDS
    while not _settled(members, partitions):
        if time.perf_counter() > deadline:
            raise RuntimeError("the group does not settle")
        await asyncio.gather(*(member.beat() for member in members))
        await asyncio.sleep(_HEARTBEAT_SECONDS)


def _settled(members: Sequence[Member], partitions: int) -> bool:
    sizes = [member.partitions for member in members]
    return (
        sum(sizes) == partitions
        and max(sizes) - min(sizes) <= 1
        and len({member.epoch for member in members}) == 1
        and members[0].epoch > 0
    )


async def join(options: argparse.Namespace, members: list[Member]) -> dict[str, float]:
    """Use one partition more than members: the new member gets one, and only one other member revokes one."""
    await settle(members, options.partitions)
    await asyncio.sleep(_BETWEEN_ASSIGNMENTS_SECONDS)
    newcomer = await Member(options.group, options.members, options.topic).open(options.port)
    members.append(newcomer)
    begin = time.perf_counter()
    await newcomer.beat()
    await settle(members, options.partitions)
    return {"ms": (time.perf_counter() - begin) * 1000}


async def stay(options: argparse.Namespace, members: list[Member]) -> dict[str, float]:
    await settle(members, options.partitions)
    for member in members:
        member._next(None)
    each = options.heartbeats // len(members)

    async def beat_on(member: Member) -> None:
        for _ in range(each):
            await member.beat()

    cpu, begin = cpu_seconds(options.pid), time.perf_counter()
    await asyncio.gather(*(beat_on(member) for member in members))
    seconds = time.perf_counter() - begin
    return {"rate": each * len(members) / seconds, "cpu": cpu_seconds(options.pid) - cpu}


Mode = Callable[[argparse.Namespace, list[Member]], Awaitable[dict[str, float]]]
_MODES: dict[str, Mode] = {"join": join, "stay": stay}


async def run(options: argparse.Namespace) -> dict[str, float]:
    members = [
        await Member(options.group, number, options.topic).open(options.port)
        for number in range(options.members)
    ]
    try:
        return await _MODES[options.mode](options, members)
    finally:
        for member in members:
            member.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=sorted(_MODES))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--pid", type=int, default=0, help="of the broker")
    parser.add_argument("--heartbeats", type=int, default=10_000)
    print(json.dumps(asyncio.run(run(parser.parse_args()))))


if __name__ == "__main__":
    main()
