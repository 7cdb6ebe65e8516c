"""Heavy requests: detection, limits, and order."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.network.requests import Handler
from barnabas.network.requests import heavy_requests as heavy
from barnabas.network.requests.heavy_requests import RequestBudget
from barnabas.network.requests.routes import ELEMENTS_AT_ONCE
from barnabas.protocol.codec import decode_whole
from barnabas.protocol.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from tests.support.server import Harness, echo, frame, heartbeat, heartbeat_frame, scenario, serving
from tests.support.waiting import async_until

MANY = ELEMENTS_AT_ONCE + 1
AT_ONCE = RequestBudget().at_once
GROUPS_VERSION = 2
MEMBERS_VERSION = 5


def delete_groups(broker: Any, request: Any, message: DeleteGroupsRequest) -> DeleteGroupsResponse:
    results = [DeletableGroupResult(group_id=name) for name in message.groups_names]
    return DeleteGroupsResponse(results=results)


def groups(function: Any = delete_groups) -> Handler:
    return Handler(DeleteGroupsRequest, 0, GROUPS_VERSION, function, in_turns=function)


def naming(count: int, correlation_id: int = 1, name: str = "g") -> bytes:
    return frame(DeleteGroupsRequest(groups_names=[name] * count), GROUPS_VERSION, correlation_id)


def leave_group(broker: Any, request: Any, message: LeaveGroupRequest) -> LeaveGroupResponse:
    return LeaveGroupResponse(members=[MemberResponse(member_id=one.member_id) for one in message.members])


def leaving(count: int) -> bytes:
    members = [MemberIdentity(member_id="m")] * count
    return frame(LeaveGroupRequest(group_id="g", members=members), MEMBERS_VERSION)


def heavy_requests(harness: Harness, name: str) -> float:
    return harness.registry.snapshot().get(f"barnabas_heavy_requests_total{{request={name}}}", 0)


def refused_requests(harness: Harness, name: str, limit: str) -> float:
    name = f"barnabas_refused_requests_total{{request={name},limit={limit}}}"
    return harness.registry.snapshot().get(name, 0)


@scenario
async def test_a_request_is_heavy_from_a_thousand_elements_on() -> None:
    async with serving(groups()) as harness:
        client = await harness.connect()
        for count, requests in ((ELEMENTS_AT_ONCE, 0), (MANY, 1)):
            await client.send(naming(count))
            response = decode_whole(DeleteGroupsResponse, GROUPS_VERSION, await client.response(), 5)
            assert len(response.results) == count
            assert heavy_requests(harness, "DeleteGroups") == requests


@scenario
async def test_a_long_request_of_few_elements_is_heavy_too() -> None:
    async with serving(groups()) as harness:
        client = await harness.connect()
        await client.send(naming(100, name="g" * 20_000))
        response = decode_whole(DeleteGroupsResponse, GROUPS_VERSION, await client.response(), 5)
        assert len(response.results) == 100
        assert heavy_requests(harness, "DeleteGroups") == 1


@scenario
async def test_answers_keep_the_order_of_requests_around_a_heavy_one() -> None:
    async with serving(groups(), heartbeat(echo)) as harness:
        client = await harness.connect()
        await client.send(heartbeat_frame(1) + naming(MANY, 2) + heartbeat_frame(3) + naming(MANY, 4))
        assert await client.correlation_ids(4) == [1, 2, 3, 4]


@scenario
async def test_others_are_answered_while_heavy_requests_wait_for_each_other() -> None:
    in_progress: list[asyncio.Event] = []

    async def wait(broker: Any, request: Any, message: DeleteGroupsRequest) -> DeleteGroupsResponse:
        in_progress.append(asyncio.Event())
        await in_progress[-1].wait()
        return DeleteGroupsResponse()

    async with serving(groups(wait), heartbeat(echo)) as harness:
        clients = [await harness.connect() for _ in range(AT_ONCE + 1)]
        for client in clients:
            await client.send(naming(MANY))
        await async_until(lambda: len(in_progress) == AT_ONCE)
        await async_until(lambda: harness.registry.snapshot()["barnabas_heavy_requests_waiting"] == 1)
        held = harness.server.memory.used
        assert held >= len(clients) * MANY  # the bytes of those that wait are counted
        other = await harness.connect()
        await other.send(heartbeat_frame(7))
        assert await other.correlation_ids(1) == [7]
        assert len(in_progress) == AT_ONCE
        in_progress[0].set()
        await async_until(lambda: len(in_progress) == AT_ONCE + 1)
        for event in in_progress:
            event.set()
        assert [await client.correlation_ids(1) for client in clients] == [[1]] * len(clients)
        await async_until(lambda: harness.server.memory.used == 0)


@scenario
async def test_waiting_heavy_requests_do_not_block_others() -> None:
    in_progress: list[asyncio.Event] = []

    async def wait(broker: Any, request: Any, message: DeleteGroupsRequest) -> DeleteGroupsResponse:
        in_progress.append(asyncio.Event())
        await in_progress[-1].wait()
        return DeleteGroupsResponse()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heavy, "MAX_HOLD_SECONDS", 0.01)
        async with serving(groups(wait)) as harness:
            clients = [await harness.connect() for _ in range(AT_ONCE + 1)]
            for client in clients:
                await client.send(naming(MANY))
            await async_until(lambda: len(in_progress) == AT_ONCE + 1)
            for event in in_progress:
                event.set()
            assert [await client.correlation_ids(1) for client in clients] == [[1]] * len(clients)


@scenario
async def test_too_many_elements_are_refused_with_an_error_where_the_api_has_one() -> None:
    async with serving(Handler(LeaveGroupRequest, 0, MEMBERS_VERSION, leave_group)) as harness:
        client = await harness.connect()
        await client.send(leaving(RequestBudget().undivided_elements))
        served = decode_whole(LeaveGroupResponse, MEMBERS_VERSION, await client.response(), 5)
        assert len(served.members) == RequestBudget().undivided_elements
        await client.send(leaving(RequestBudget().undivided_elements + 1))
        refused = decode_whole(LeaveGroupResponse, MEMBERS_VERSION, await client.response(), 5)
        assert (refused.error_code, refused.members) == (ErrorCode.POLICY_VIOLATION, [])
        assert refused_requests(harness, "LeaveGroup", "elements") == 1


@scenario
async def test_a_request_that_cannot_be_served_in_parts_has_a_limit_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complete = Handler(DeleteGroupsRequest, 0, GROUPS_VERSION, delete_groups)
    async with serving(complete, budget=RequestBudget(undivided_elements=2_000)) as harness:
        setting = "barnabas.undivided.request.max.elements"
        await _is_refused(harness, naming(2_001), "elements", setting, caplog)


@scenario
async def test_number_of_concurrent_heavy_requests_equals_the_setting() -> None:
    in_progress: list[asyncio.Event] = []

    async def wait(broker: Any, request: Any, message: DeleteGroupsRequest) -> DeleteGroupsResponse:
        in_progress.append(asyncio.Event())
        await in_progress[-1].wait()
        return DeleteGroupsResponse()

    async with serving(groups(wait), budget=RequestBudget(at_once=AT_ONCE + 1)) as harness:
        clients = [await harness.connect() for _ in range(AT_ONCE + 1)]
        for client in clients:
            await client.send(naming(MANY))
        await async_until(lambda: len(in_progress) == AT_ONCE + 1)
        for event in in_progress:
            event.set()
        assert [await client.correlation_ids(1) for client in clients] == [[1]] * len(clients)


async def _is_refused(
    harness: Harness, request: bytes, limit: str, setting: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = await harness.connect()
    with caplog.at_level(logging.WARNING):
        await client.send(request)
        assert await client.is_closed()
    assert refused_requests(harness, "DeleteGroups", limit) == 1
    assert setting in caplog.text


@scenario
async def test_too_many_elements_cost_the_connection_where_the_api_has_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(groups(), budget=RequestBudget(elements=20_000)) as harness:
        await _is_refused(harness, naming(20_001), "elements", "barnabas.request.max.elements", caplog)


@scenario
async def test_a_heavy_request_may_not_be_too_long(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(groups(), budget=RequestBudget(request_bytes=1 << 20)) as harness:
        request = naming(64, name="g" * 20_000)
        await _is_refused(harness, request, "bytes", "barnabas.heavy.request.max.bytes", caplog)


@scenario
async def test_a_large_answer_may_not_be_too_long(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(groups(), budget=RequestBudget(response_bytes=1 << 20)) as harness:
        request = naming(2_000, name="g" * 600)
        await _is_refused(harness, request, "answer", "barnabas.response.max.bytes", caplog)


@scenario
async def test_a_heavy_request_that_cannot_be_decoded_closes_the_connection() -> None:
    async with serving(groups(), heartbeat(echo)) as harness:
        client = await harness.connect()
        request = bytearray(naming(MANY))
        request[-3] = 0xFF  # a length that runs beyond the end
        await client.send(bytes(request))
        assert await client.is_closed()
        await async_until(lambda: harness.server.memory.used == 0)
