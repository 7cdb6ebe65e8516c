"""ApiVersions, the first request of every client."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode
from barnabas.handlers.versions import api_versions
from barnabas.network.requests import Handler
from barnabas.protocol.codec import decode_whole
from barnabas.protocol.messages.groups import HeartbeatRequest
from barnabas.protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse
from tests.support.server import Harness, echo, frame, heartbeat_frame, scenario, serving

HANDLERS = (
    Handler(ApiVersionsRequest, 0, 5, api_versions),
    Handler(HeartbeatRequest, 1, 3, echo, advertised_min=0),
)
NAMED = ApiVersionsRequest(client_software_name="tester", client_software_version="1.0.2")


def broker() -> Any:
    return SimpleNamespace(
        node_id=1,
        image=MetadataImage(offset=17, cluster_id="ours", features={"group.version": 1, "off.version": 0}),
        supported_features={"group.version": (0, 1), "metadata.version": (7, 29)},
    )


async def ask(
    server: Harness, version: int, request: ApiVersionsRequest, body_version: int
) -> ApiVersionsResponse:
    requests: Any = server.dispatcher.broker
    requests.dispatcher = server.dispatcher
    client = await server.connect()
    await client.send(frame(request, version, 99))
    body = await client.response()
    assert struct.unpack_from(">i", body) == (99,)
    return decode_whole(ApiVersionsResponse, body_version, memoryview(body), 4)


@pytest.mark.parametrize("version", range(6))
def test_the_answer_lists_the_table_of_handlers(version: int) -> None:
    @scenario
    async def run() -> None:
        async with serving(*HANDLERS, broker=broker()) as server:
            answer = await ask(server, version, NAMED if version >= 3 else ApiVersionsRequest(), version)
            assert answer.error_code == ErrorCode.NONE
            apis = [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys]
            assert apis == [(12, 0, 3), (18, 0, 5)]
            supported = [feature.name for feature in answer.supported_features]
            finalized = [(feature.name, feature.max_version_level) for feature in answer.finalized_features]
            if version < 3:
                assert (supported, finalized) == ([], [])
                return
            # A minimum of 0 is more than clients of version 3 can read.
            assert supported == (
                ["metadata.version"] if version == 3 else ["group.version", "metadata.version"]
            )
            assert finalized == [("group.version", 1)]
            assert answer.finalized_features_epoch == 17

    run()


@pytest.mark.parametrize("version", [6, 99, 32767])
def test_a_newer_version_is_answered_in_version_0_with_the_versions_to_use(version: int) -> None:
    @scenario
    async def run() -> None:
        async with serving(*HANDLERS, broker=broker()) as server:
            client = await server.connect()
            body = struct.pack(">hhih", 18, version, 5, 4) + b"test" + b"\x00anything at all"
            await client.send(struct.pack(">i", len(body)) + body + heartbeat_frame(6, version=3))
            answer = await client.response()
            message = decode_whole(ApiVersionsResponse, 0, memoryview(answer), 4)
            assert struct.unpack_from(">i", answer) == (5,)
            assert message.error_code == ErrorCode.UNSUPPORTED_VERSION
            apis = [(api.api_key, api.min_version, api.max_version) for api in message.api_keys]
            assert apis == [(18, 0, 5)]
            assert await client.correlation_ids(1) == [6]  # the connection stays open

    run()


@pytest.mark.parametrize(
    ("name", "version"),
    [("", "1"), ("a", ""), ("a b", "1"), ("-a", "1"), ("a", "1."), ("ä", "1"), ("a\n", "1")],
)
def test_software_that_does_not_name_itself_properly_is_an_invalid_request(name: str, version: str) -> None:
    @scenario
    async def run() -> None:
        async with serving(*HANDLERS, broker=broker()) as server:
            request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
            assert (await ask(server, 3, request, 3)).error_code == ErrorCode.INVALID_REQUEST

    run()


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("ours", 1, ErrorCode.NONE),
        (None, 1, ErrorCode.NONE),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("ours", 2, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
def test_a_client_that_wants_another_broker_must_bootstrap_again(
    cluster_id: str | None, node_id: int, error: ErrorCode
) -> None:
    @scenario
    async def run() -> None:
        async with serving(*HANDLERS, broker=broker()) as server:
            request = ApiVersionsRequest("tester", "1.0.2", cluster_id, node_id)
            answer = await ask(server, 5, request, 5)
            assert (answer.error_code, bool(answer.api_keys)) == (error, error == ErrorCode.NONE)

    run()


@scenario
async def test_the_connection_remembers_its_software() -> None:
    async with serving(*HANDLERS, broker=broker()) as server:
        await ask(server, 4, NAMED, 4)
        (connection,) = server.server.connections
        assert (connection.context.software_name, connection.context.software_version) == ("tester", "1.0.2")
