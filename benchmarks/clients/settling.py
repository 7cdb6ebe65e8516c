"""Members that join one group at the same time: time until all of them are in one generation.

    python -m benchmarks.clients.settling --port P --group G --topic T --members 50 --groups 10

Each member follows the consumer protocol (join, sync, heartbeat, rejoin on request) on a separate connection. The
leader assigns one partition of the topic to each; a member counts once it has received its assignment.
"""

import argparse
import asyncio
import json
import statistics
import struct
import time

from barnabas.client.connection import BrokerConnection
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

_JOIN, _SYNC, _HEARTBEAT = 7, 4, 3  # versions that both brokers support
_HEARTBEAT_SECONDS = 0.02
_NO_USER_DATA = struct.pack(">i", -1)


def subscription(topic: str) -> bytes:
    """Subscription metadata of a consumer: version 0, one topic."""
    return struct.pack(">hih", 0, 1, len(topic)) + topic.encode() + _NO_USER_DATA


def assignment(topic: str, partition: int) -> bytes:
    """Assignment of a member: version 0, one partition of one topic."""
    head = struct.pack(">hih", 0, 1, len(topic)) + topic.encode()
    return head + struct.pack(">ii", 1, partition) + _NO_USER_DATA


class Settling:
    """Counts the members that have synced, by generation."""

    def __init__(self, group: str, topic: str, members: int) -> None:
        self._group = group
        self._topic = topic
        self._members = members
        self._synced: dict[int, int] = {}
        self._done = asyncio.Event()

    async def run(self, port: int) -> float:
        connections = [await BrokerConnection.connect("127.0.0.1", port) for _ in range(self._members)]
        begin = time.perf_counter()
        tasks = [asyncio.create_task(self._member(connection)) for connection in connections]
        await self._done.wait()
        seconds = time.perf_counter() - begin
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in connections:
            connection.close()
        return seconds

    async def _member(self, connection: BrokerConnection) -> None:
        member_id = ""
        while True:
            joined = await self._join(connection, member_id)
            member_id = joined.member_id
            if not joined.error_code and await self._sync(connection, joined):
                await self._stay(connection, joined)

    async def _join(self, connection: BrokerConnection, member_id: str) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", subscription(self._topic))],
        )
        response: JoinGroupResponse = await connection.send(request, _JOIN)
        return response

    async def _sync(self, connection: BrokerConnection, joined: JoinGroupResponse) -> bool:
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[
                SyncGroupRequestAssignment(member.member_id, assignment(self._topic, partition))
                for partition, member in enumerate(joined.members)
            ],
        )
        response = await connection.send(request, _SYNC)
        if response.error_code or not response.assignment:
            return False
        synced = self._synced.get(joined.generation_id, 0) + 1
        self._synced[joined.generation_id] = synced
        if synced == self._members:
            self._done.set()
        return True

    async def _stay(self, connection: BrokerConnection, joined: JoinGroupResponse) -> None:
        request = HeartbeatRequest(self._group, joined.generation_id, joined.member_id)
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            response = await connection.send(request, _HEARTBEAT)
            if response.error_code != ErrorCode.NONE:
                return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--groups", type=int, default=1, help="so many of them, one after the other")
    options = parser.parse_args()
    names = [f"{options.group}-{number}" for number in range(options.groups)]
    settlings = [Settling(name, options.topic, options.members) for name in names]
    seconds = [asyncio.run(settling.run(options.port)) for settling in settlings]
    print(json.dumps({"ms": statistics.median(seconds) * 1000}))


if __name__ == "__main__":
    main()
