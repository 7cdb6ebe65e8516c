"""Leader election: the group `schema-registry` elects the registry that writes, compatible with Confluent and Karapace.

A classic group of protocol type `sr`: each member sends its address, the group leader picks the registry that writes,
and all members learn its address from the assignment. Two concurrent leaders do no harm: see `writer`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from barnabas.client import Client, ClientError, raise_for
from barnabas.client.groups import find_coordinator
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import Backoff, Deadline
from barnabas.common.safe_logging import safe_logger
from barnabas.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

logger = safe_logger(__name__)

GROUP, PROTOCOL_TYPE, PROTOCOL = "schema-registry", "sr", "v0"
SESSION_TIMEOUT, REBALANCE_TIMEOUT, HEARTBEAT = 10.0, 30.0, 1.0  # seconds; as Confluent, except the heartbeat
LEAVE_TIMEOUT = 2.0
VERSION, NO_ERROR, DUPLICATE_URLS = 1, 0, 1


@dataclass(frozen=True, slots=True)
class RegistryIdentity:
    """Address and eligibility of a registry, sent as member metadata."""

    host: str
    port: int
    scheme: str = "http"
    eligible: bool = True

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host.lower()}:{self.port}"

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.eligible,
            "scheme": self.scheme,
        }


def read_identity(document: Any) -> RegistryIdentity | None:
    if not isinstance(document, dict) or not isinstance(document.get("host"), str):
        return None
    port, scheme = document.get("port"), document.get("scheme") or "http"
    if not isinstance(port, int) or not 0 < port <= 65535 or scheme not in ("http", "https"):
        return None
    eligible = document.get("master_eligibility", True) is True
    return RegistryIdentity(document["host"], port, scheme, eligible)


def choose(members: dict[str, RegistryIdentity | None], current: RegistryIdentity | None) -> dict[str, Any]:
    """Assignment: the current leader if it is still eligible, else the eligible member with the lowest address."""
    known = {name: one for name, one in members.items() if one is not None}
    eligible = sorted((one.url, name) for name, one in known.items() if one.eligible)
    urls = [one.url for one in known.values()]
    error = DUPLICATE_URLS if len(set(urls)) < len(urls) else NO_ERROR
    stays = [name for url, name in eligible if current is not None and url == current.url]
    master = stays[0] if stays else (eligible[0][1] if eligible else None)
    identity = None if master is None else known[master].to_json()
    return {"version": VERSION, "error": error, "master": master, "master_identity": identity}


def _nothing() -> None:
    """Default callback of an election."""


class RegistryLeadership:
    """Group membership of a registry. `leader` is None during an election.

    Needs a dedicated `client`, as JoinGroup blocks the connection. `elected` is called when this registry becomes the
    leader.
    """

    def __init__(
        self,
        client: Client,
        identity: RegistryIdentity,
        group: str = GROUP,
        elected: Callable[[], None] = _nothing,
    ) -> None:
        self.client = client
        self.identity = identity
        self.group = group
        self.leader: RegistryIdentity | None = None
        self.leader_since = 0.0  # time.monotonic() when the leader became known
        self._elected = elected
        self.generation = -1
        self._changed = asyncio.Event()
        self._member_id = ""
        self._coordinator: int | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def leads(self) -> bool:
        return self.leader is not None and self.leader.url == self.identity.url

    def start(self, ended: Callable[[asyncio.Task[None]], None] | None = None) -> None:
        """Join the group in the background; `ended` is called if the task ends."""
        self._task = asyncio.create_task(self._stay_in_group())
        if ended is not None:
            self._task.add_done_callback(ended)

    async def close(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        with contextlib.suppress(ClientError, KafkaError, TimeoutError):
            async with asyncio.timeout(LEAVE_TIMEOUT):
                await self._leave()

    async def known_leader(self, within: float) -> RegistryIdentity | None:
        """Current leader; waits for an election in progress."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self.leader is None:
                    self._changed.clear()
                    await self._changed.wait()
        return self.leader

    async def _stay_in_group(self) -> None:
        backoff, session = Backoff(), Deadline(SESSION_TIMEOUT)
        while True:
            try:
                await self._join()
                backoff.reset()
                while True:
                    session = Deadline(SESSION_TIMEOUT)
                    await asyncio.sleep(HEARTBEAT)
                    await self._heartbeat()
            except (ClientError, KafkaError) as error:
                self._after(error)
                if session.passed:
                    self._learn(None)  # the session has expired: another leader may have been elected
                if not _is_rebalance(error):
                    await asyncio.sleep(backoff.next_delay())

    def _after(self, error: Exception) -> None:
        if _is_rebalance(error):
            return
        self._coordinator = None
        if isinstance(error, KafkaError) and error.code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        logger.info("the registry has left its group: %s", error)

    async def _join(self) -> None:
        joined = await self._ask_to_join()
        assignments = []
        if joined.leader == joined.member_id:
            members = {one.member_id: read_identity(_json(one.metadata)) for one in joined.members}
            assignment = json.dumps(choose(members, self.leader)).encode()
            assignments = [
                SyncGroupRequestAssignment(member_id=one, assignment=assignment) for one in members
            ]
        synced = await self._send(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=joined.generation_id,
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=PROTOCOL,
                assignments=assignments,
            ),
            REBALANCE_TIMEOUT,
        )
        raise_for(synced.error_code, self.group)
        self.generation = joined.generation_id
        self._read_assignment(_json(synced.assignment))

    async def _ask_to_join(self) -> JoinGroupResponse:
        metadata = json.dumps(self.identity.to_json()).encode()
        while True:
            request = JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=int(SESSION_TIMEOUT * 1000),
                rebalance_timeout_ms=int(REBALANCE_TIMEOUT * 1000),
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata)],
            )
            response: JoinGroupResponse = await self._send(request, REBALANCE_TIMEOUT)
            self._member_id = response.member_id or self._member_id
            if response.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                raise_for(response.error_code, f"cannot join the group {self.group}")
                return response

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self._member_id
        )
        raise_for((await self._send(request)).error_code, self.group)

    async def _leave(self) -> None:
        if self._member_id and self._coordinator is not None:
            member = MemberIdentity(member_id=self._member_id)
            await self._send(LeaveGroupRequest(group_id=self.group, members=[member]))

    async def _send(self, message: Any, extra: float = 0.0) -> Any:
        if self._coordinator is None:
            self._coordinator = await find_coordinator(self.client, self.group)
        within = self.client.request_timeout + extra
        return await self.client.send_to_broker(self._coordinator, message, within)

    def _read_assignment(self, document: Any) -> None:
        found = document if isinstance(document, dict) else {}
        if found.get("error") == DUPLICATE_URLS:
            logger.error("two registries advertise the same address; one is %s", self.identity.url)
        self._learn(read_identity(found.get("master_identity")))

    def _learn(self, leader: RegistryIdentity | None) -> None:
        is_new = leader != self.leader
        self.leader = leader
        self._changed.set()
        if is_new:
            logger.info("the primary registry is %s", leader.url if leader else "not known")
            self.leader_since = time.monotonic()
            if self.leads:
                self._elected()


def _is_rebalance(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code == ErrorCode.REBALANCE_IN_PROGRESS


def _json(data: bytes | None) -> Any:
    try:
        return json.loads(data) if data else None
    except ValueError:
        return None
