"""Members of a classic group with large metadata: decoded once or rejected, while other clients are served."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.protocol import decode_response
from barnabas.protocol.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.messages.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from tests.support.brokers import BrokerProcess
from tests.support.clients import RawConnection, frame_of
from tests.support.clocks import Pings
from tests.support.waiting import until

VERSION = 3  # the last one in which a member joins with one request
MAX_PING = 0.1
MEBIBYTE = 1 << 20
TASKS = 5_000
_groups = count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = ("group.initial.rebalance.delay.ms=1000", "offsets.topic.num.partitions=1")
    with BrokerProcess(tmp_path_factory.mktemp("broker"), *settings) as running:
        with RawConnection(running.port) as connection:
            until(lambda: _is_found(connection), "a coordinator")
        yield running


def _is_found(connection: RawConnection) -> bool:
    """Is there a coordinator, and has it loaded its groups?"""
    found = connection.ask(FindCoordinatorRequest(key="g", key_type=0), 2)
    assert isinstance(found, FindCoordinatorResponse)
    if found.error_code:
        return False
    with RawConnection(int(found.port)) as other:
        return joined(other, joining("probe", subscription(["orders"]))) is ErrorCode.NONE


def subscription(topics: list[str], user_data: bytes = b"") -> bytes:
    """As consumers write it: a version, topics, data of the assignor, no partitions."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    rest = struct.pack(">i", len(user_data)) + user_data + struct.pack(">i", 0)
    return struct.pack(">hi", 1, len(topics)) + names + rest


def short_names(size: int) -> bytes:
    """As many names as fit into so many bytes."""
    number = (size - 14) // 4
    return struct.pack(">hi", 1, number) + b"\0\x02ab" * number + bytes(4 + 4)


def joining(group: str, metadata: bytes, protocols: int = 1) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(name=f"range{number or ''}", metadata=metadata)
            for number in range(protocols)
        ],
    )


def answer(connection: RawConnection) -> ErrorCode:
    body = connection.receive()
    assert body is not None
    response = decode_response(JoinGroupRequest.api_key, VERSION, JoinGroupResponse, memoryview(body))[1]
    return ErrorCode(response.error_code)


def joined(connection: RawConnection, request: JoinGroupRequest) -> ErrorCode:
    connection.send(frame_of(request, VERSION))
    return answer(connection)


@pytest.mark.parametrize("case", ["many names", "many different names", "user data", "not a subscription"])
def test_a_generation_of_members_with_much_metadata_does_not_hold_up_others(
    broker: BrokerProcess, case: str
) -> None:
    group, members = f"g{next(_groups)}", 14
    size = MEBIBYTE - 100
    cases: dict[str, Callable[[int], bytes]] = {
        "many names": lambda number: short_names(size),
        "many different names": lambda number: subscription([f"t{number}-{n}" for n in range(10_000)]),
        "user data": lambda number: subscription(["orders"], bytes(size)),
        "not a subscription": lambda number: b"\xff" * size,
    }
    metadata = cases[case]
    with ExitStack() as stack:
        connections = [stack.enter_context(RawConnection(broker.port)) for _ in range(members)]
        with Pings(broker) as pings:
            for number, connection in enumerate(connections):
                connection.send(frame_of(joining(group, metadata(number)), VERSION))
            codes = {answer(connection) for connection in connections}
    assert codes == {ErrorCode.NONE}
    assert pings.longest < MAX_PING


def test_member_metadata_of_all_protocols_is_limited_to_a_mebibyte(broker: BrokerProcess) -> None:
    half = MEBIBYTE // 2
    with RawConnection(broker.port) as connection:
        allowed = joining(f"g{next(_groups)}", subscription(["orders"], bytes(half - 100)), protocols=2)
        assert joined(connection, allowed) is ErrorCode.NONE
        beyond = joining(f"g{next(_groups)}", subscription(["orders"], bytes(half)), protocols=2)
        assert joined(connection, beyond) is ErrorCode.GROUP_MAX_SIZE_REACHED
        many = joining(f"g{next(_groups)}", subscription(["orders"]), protocols=2000)
        assert joined(connection, many) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_of_kafka_streams_with_5000_tasks_may_join(broker: BrokerProcess) -> None:
    """Their size only: each task takes an id of eight bytes, the offsets of its store, and the name of a topology."""
    user_data = bytes(TASKS * 24)
    group = f"g{next(_groups)}"
    with ExitStack() as stack:
        connections = [stack.enter_context(RawConnection(broker.port)) for _ in range(10)]
        for connection in connections:
            topics = [f"application-KSTREAM-AGGREGATE-STATE-STORE-{n:010}-repartition" for n in range(200)]
            request = joining(group, subscription(topics, user_data))
            connection.send(frame_of(request, VERSION))
        assert {answer(connection) for connection in connections} == {ErrorCode.NONE}
