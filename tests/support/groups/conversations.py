"""Recorded conversations with a broker about groups, for comparison with another broker."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.client.connection import BrokerConnection
from barnabas.protocol.messages.groups import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from barnabas.protocol.messages.metadata import FindCoordinatorRequest
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.schema import Message, Struct
from tests.support.waiting import async_eventually, async_until

# Long: a conversation may be delayed for seconds on a busy machine.
SESSION_MS = 60_000
MIN_SESSION_MS = 6_000  # group.min.session.timeout.ms
REBALANCE_MS = 60_000
CLIENT_ID = "talker"

# A member id ends in a random UUID.
_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
DIFFERENT_ANYWHERE = {"topic_id", "port", "throttle_time_ms", "error_message"}


def subscription(*topics: str) -> bytes:
    """The subscription in a consumer's JoinGroup: version 0, topics, no user data."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def join_request(group: str, member: str = "", **fields: Any) -> JoinGroupRequest:
    protocols = fields.pop("protocols", {"range": subscription("orders")})
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=fields.pop("session", SESSION_MS),
        rebalance_timeout_ms=fields.pop("rebalance", REBALANCE_MS),
        member_id=member,
        group_instance_id=fields.pop("instance", None),
        protocol_type=fields.pop("protocol_type", "consumer"),
        protocols=[JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols.items()],
        **fields,
    )


class Talk:
    """Sends requests over any number of connections; responses are recorded in `heard`, without random values."""

    def __init__(self, address: str) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._connections: list[BrokerConnection] = []
        self._names: dict[str, str] = {}
        self.heard: list[tuple[str, Any]] = []

    async def open(self) -> BrokerConnection:
        connection = await BrokerConnection.connect(self._host, self._port, CLIENT_ID)
        self._connections.append(connection)
        return connection

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    async def ask(self, request: Message, version: int, connection: BrokerConnection | None = None) -> Any:
        label = f"{len(self.heard)}: {request!r} in version {version}"
        answer = await (connection or self._connections[0]).send(request, version)
        self.heard.append((self._plain(label), self._comparable(answer)))
        return answer

    async def ask_aside(self, request: Message, version: int) -> asyncio.Task[Any]:
        """Ask on a new connection and do not wait: the answer depends on others."""
        connection = await self.open()
        return asyncio.create_task(connection.send(request, version))

    async def until_described(self, group: str, is_so: Callable[[Any], bool]) -> None:
        """Wait for the expected description of a group: a request on another connection has arrived."""
        connection = await self.open()
        request = DescribeGroupsRequest(groups=[group])
        await async_eventually(lambda: connection.send(request, 5), lambda answer: is_so(answer.groups[0]))

    async def hear(self, *tasks: asyncio.Task[Any]) -> list[Any]:
        answers = [await task for task in tasks]
        for answer in answers:
            self.heard.append((f"{len(self.heard)}: aside", self._comparable(answer)))
        return answers

    # -- what every talk begins with

    async def begin(self, *groups: str, topics: tuple[str, ...] = ("orders", "bills")) -> None:
        connection = await self.open()
        await connection.send(CreateTopicsRequest([CreatableTopic(topic, 3, 1) for topic in topics]), 7)
        for group in groups:  # Kafka has to create the internal topic, and to load it
            await self._until_coordinated(connection, group)

    async def _until_coordinated(self, connection: BrokerConnection, group: str) -> None:
        await async_until(lambda: self._is_coordinated(connection, group))

    async def _is_coordinated(self, connection: BrokerConnection, group: str) -> bool:
        found = await connection.send(FindCoordinatorRequest(key=group), 3)
        if found.error_code:
            return False
        probe = await connection.send(SyncGroupRequest(group_id=group, member_id="?"), 0)
        return probe.error_code not in (14, 15, 16)

    async def join(self, group: str, **fields: Any) -> JoinGroupResponse:
        """A lone dynamic member, through both steps."""
        first = await self.ask(join_request(group, **fields), 7)
        answer: JoinGroupResponse = await self.ask(join_request(group, first.member_id, **fields), 7)
        return answer

    async def sync(self, group: str, joined: JoinGroupResponse, assignments: dict[str, bytes]) -> Any:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[SyncGroupRequestAssignment(*pair) for pair in assignments.items()],
        )
        return await self.ask(request, 4)

    async def settle(self, group: str, **fields: Any) -> JoinGroupResponse:
        """A stable group of one member."""
        joined = await self.join(group, **fields)
        await self.sync(group, joined, {joined.member_id: b"all"})
        return joined

    async def heartbeat(self, group: str, joined: JoinGroupResponse, **fields: Any) -> Any:
        fields = {"generation_id": joined.generation_id, "member_id": joined.member_id, **fields}
        return await self.ask(HeartbeatRequest(group_id=group, **fields), 4)

    # -- what can be compared

    def _plain(self, text: str) -> str:
        return _RANDOM.sub(lambda found: self._names.setdefault(found[0], f"#{len(self._names)}"), text)

    def _comparable(self, value: Any) -> Any:
        if isinstance(value, Struct):
            fields = {field.name: getattr(value, field.name) for field in value.FIELDS}
            return {
                name: self._comparable(part)
                for name, part in fields.items()
                if name not in DIFFERENT_ANYWHERE
            }
        if isinstance(value, list):
            return sorted((self._comparable(item) for item in value), key=repr)
        return self._plain(value) if isinstance(value, str) else value


Scenario = Callable[[Talk], Awaitable[None]]
