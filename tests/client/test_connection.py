"""The connection, against a misbehaving broker."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from barnabas.client.connection import BrokerConnection
from barnabas.client.errors import (
    BrokenResponseError,
    CannotConnectError,
    ConnectionLostError,
    RequestTimeoutError,
    UnsupportedApiError,
)
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.metadata import ApiVersion, ApiVersionsResponse, MetadataRequest
from tests.support.builders.messages import encode_response
from tests.support.programs import free_port

Answer = Callable[[int, int, int], bytes | None]


def versions(correlation_id: int, version: int) -> bytes:
    apis = [ApiVersion(18, 0, 4), ApiVersion(3, 0, 12), ApiVersion(1, 90, 99)]
    return b"".join(encode_response(correlation_id, 18, version, ApiVersionsResponse(api_keys=apis)))


def only_versions(api_key: int, version: int, correlation_id: int) -> bytes | None:
    """Answers ApiVersions, and nothing else."""
    return versions(correlation_id, version) if api_key == 18 else None


@asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[int]:
    """`answer` gives a frame, None for silence, or b"" to hang up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                numbers = (int.from_bytes(frame[a:b], "big") for a, b in ((0, 2), (2, 4), (4, 8)))
                reply = answer(*numbers)
                if reply == b"":
                    break
                writer.write(reply or b"")
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        port: int = listening.sockets[0].getsockname()[1]
        yield port


def run(answer: Answer, test: Callable[[BrokerConnection], Awaitable[None]]) -> None:
    async def main() -> None:
        async with server(answer) as port:
            connection = await BrokerConnection.connect("127.0.0.1", port, timeout_seconds=5)
            try:
                await test(connection)
            finally:
                connection.close()

    asyncio.run(main())


def test_the_newest_version_that_both_sides_know_is_chosen() -> None:
    async def test(connection: BrokerConnection) -> None:
        assert connection.version_for(MetadataRequest) == 12

    run(only_versions, test)


def test_a_request_that_the_broker_does_not_know_is_not_sent() -> None:
    async def test(connection: BrokerConnection) -> None:
        with pytest.raises(UnsupportedApiError, match="supports FetchRequest 90-99"):
            await connection.send(FetchRequest())
        assert not connection.closed

    run(only_versions, test)


def test_old_broker_is_asked_again_in_a_supported_version() -> None:
    requests = []

    def answer(api_key: int, version: int, correlation_id: int) -> bytes:
        requests.append(version)
        if version > 2:
            body = encode(ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(18, 0, 2)]), 0)
            return (4 + len(body)).to_bytes(4, "big") + correlation_id.to_bytes(4, "big") + body
        return versions(correlation_id, version)

    async def test(connection: BrokerConnection) -> None:
        assert connection.versions[3].last == 12

    run(answer, test)
    assert requests == [4, 2]


def test_a_late_answer_closes_the_connection() -> None:
    async def test(connection: BrokerConnection) -> None:
        with pytest.raises(RequestTimeoutError, match=r"MetadataRequest within 0\.05 seconds"):
            await connection.send(MetadataRequest(), timeout_seconds=0.05)
        assert connection.closed
        with pytest.raises(ConnectionLostError):
            await connection.send(MetadataRequest())

    run(only_versions, test)


def test_all_requests_under_way_fail_when_the_broker_hangs_up() -> None:
    def answer(api_key: int, version: int, correlation_id: int) -> bytes | None:
        return only_versions(api_key, version, correlation_id) if api_key == 18 or correlation_id < 4 else b""

    async def test(connection: BrokerConnection) -> None:
        answers = [connection.send_nowait(MetadataRequest()) for _ in range(3)]
        for one in answers:
            with pytest.raises(ConnectionLostError, match="closed the connection"):
                await one

    run(answer, test)


def test_an_answer_that_is_not_kafka_closes_the_connection() -> None:
    def answer(api_key: int, version: int, correlation_id: int) -> bytes:
        if api_key == 18:
            return versions(correlation_id, version)
        return (8).to_bytes(4, "big") + correlation_id.to_bytes(4, "big") + b"oops"

    async def test(connection: BrokerConnection) -> None:
        with pytest.raises(BrokenResponseError, match="malformed MetadataResponse"):
            await connection.send(MetadataRequest())
        assert connection.closed

    run(answer, test)


def test_unsolicited_response_closes_the_connection() -> None:
    def answer(api_key: int, version: int, correlation_id: int) -> bytes:
        return versions(correlation_id, version) if api_key == 18 else versions(99, 0)

    async def test(connection: BrokerConnection) -> None:
        with pytest.raises(BrokenResponseError, match="unknown correlation id"):
            await connection.send(MetadataRequest())

    run(answer, test)


def test_refused_connection_reports_that_the_port_is_closed() -> None:
    with pytest.raises(CannotConnectError, match="no process listens on that port"):
        asyncio.run(BrokerConnection.connect("127.0.0.1", free_port()))


def test_silent_server_is_given_up() -> None:
    async def main() -> None:
        async with server(lambda *_: None) as port:
            with pytest.raises(CannotConnectError, match=r"no response within 0\.1 seconds"):
                await BrokerConnection.connect("127.0.0.1", port, timeout_seconds=0.1)

    asyncio.run(main())
