"""One connection to one broker: requests go out at once, answers are matched by correlation id."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any, NamedTuple

from barnabas.client.addresses import Address
from barnabas.client.errors import (
    BrokenResponseError,
    CannotConnectError,
    ClientError,
    ConnectionLostError,
    RequestTimeoutError,
    SecurityError,
    TlsError,
    UnsupportedApiError,
)
from barnabas.client.frames import FrameReceiver, TlsAlertError, write_parts
from barnabas.client.security.guard import NO_GUARD, Guard
from barnabas.client.security.session import Session
from barnabas.client.security.tls import explain_handshake
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.version import __version__
from barnabas.protocol.api import RESPONSES
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ProtocolError

CONNECT_TIMEOUT = 10.0  # Kafka's socket.connection.setup.timeout.ms
REQUEST_TIMEOUT = 30.0  # Kafka's request.timeout.ms

HELLO_VERSION = 4  # of ApiVersions: 5 would cost a second request to brokers before 4.4
_WITHOUT_NAME = 3  # requests: two for versions, and the one after them
_UNSUPPORTED_VERSION = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")


class VersionRange(NamedTuple):
    first: int
    last: int


class _Waiting(NamedTuple):
    """In-flight request."""

    response_class: type[Message]
    version: int
    answer: asyncio.Future[Any]


class BrokerConnection:
    """Pipelined connection: any number of requests in flight, answered in order."""

    def __init__(self, address: Address, client_id: str, guard: Guard = NO_GUARD) -> None:
        self.address = address
        self.client_id = client_id
        self._guard = guard
        self.versions: dict[int, VersionRange] = {}
        self.features: dict[str, int] = {}
        self._receiver = FrameReceiver(self._on_frame, self._on_end)
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._next_id = 0
        self._end: ClientError | None = None
        self._session: Session | None = None

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        client_id: str = "barnabas",
        timeout_seconds: float = CONNECT_TIMEOUT,
        guard: Guard = NO_GUARD,
    ) -> BrokerConnection:
        """Connect, negotiate API versions and authenticate."""
        return await cls(Address(host, port), client_id, guard)._connected(timeout_seconds)

    @classmethod
    async def over(
        cls, end: socket.socket, address: tuple[str, int], client_id: str, timeout_seconds: float
    ) -> BrokerConnection:
        """Use a connected socket, and negotiate API versions; `address` is for messages."""
        return await cls(Address(*address), client_id)._connected(timeout_seconds, end)

    async def _connected(self, timeout_seconds: float, end: socket.socket | None = None) -> BrokerConnection:
        connection, guard = self, self._guard
        try:
            async with asyncio.timeout(timeout_seconds):
                await connection._open(end)
                await connection.negotiate()
                if guard.mechanism is not None:
                    await connection._authenticate()
        except ssl.SSLError as error:
            connection.close()
            raise connection._handshake_failed(error) from error
        except TimeoutError:
            connection.close()
            raise CannotConnectError(
                str(connection.address), f"no response within {timeout_seconds:g} seconds"
            ) from None
        except (OSError, ConnectionLostError, BrokenResponseError) as error:
            connection.close()
            raise CannotConnectError(str(connection.address), connection._reason(error)) from error
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def closed(self) -> bool:
        return self._end is not None

    def version_for(self, request_class: type[Message]) -> int:
        """The newest version that both sides support."""
        supported = self.versions.get(request_class.api_key)
        if supported is None:
            raise UnsupportedApiError(f"the broker at {self.address} does not support {request_class.NAME}")
        version = min(supported.last, request_class.max_version)
        if version < max(supported.first, request_class.min_version):
            raise UnsupportedApiError(
                f"the broker at {self.address} supports {request_class.NAME} {supported.first}-{supported.last}, "
                f"this client {request_class.min_version}-{request_class.max_version}"
            )
        return version

    async def send(
        self, message: Message, version: int | None = None, timeout_seconds: float = REQUEST_TIMEOUT
    ) -> Any:
        """The broker's answer to a request, in the newest version that both sides know."""
        answer = self.send_nowait(message, version)
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._receiver.drain()
                return await answer
        except TimeoutError:
            late = RequestTimeoutError(
                f"{self.address} did not respond to {message.NAME} within {timeout_seconds:g} seconds"
            )
            self._finish(late)
            raise late from None

    def send_nowait(self, message: Message, version: int | None = None) -> asyncio.Future[Any]:
        """Write a request now, in the order of the calls; the answer comes through the future."""
        if version is None:
            version = self.version_for(type(message))
        correlation_id = self._write(message, version)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = _Waiting(RESPONSES[message.api_key], version, answer)
        return answer

    async def send_without_answer(self, message: Message) -> None:
        """For a Produce with acks=0, which a broker never answers."""
        self._write(message, self.version_for(type(message)))
        await self._receiver.drain()

    def close(self) -> None:
        self._finish(ConnectionLostError(f"the connection to {self.address} was closed locally"))

    async def _open(self, end: socket.socket | None) -> None:
        loop = asyncio.get_running_loop()
        if end is not None:
            await loop.create_connection(lambda: self._receiver, sock=end)
            self._transport = self._receiver.transport
            return
        host, port = self.address
        context = self._guard.context
        name = host if context is not None else None
        await loop.create_connection(lambda: self._receiver, host, port, ssl=context, server_hostname=name)
        transport = self._receiver.transport
        assert transport is not None
        # Requests are written whole, so waiting for more would only delay them.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = transport

    async def negotiate(self) -> None:
        """Ask for API versions and finalized features. Later on, too: features change while a connection lasts.

        KIP-511: a broker that knows only older versions answers in version 0 with error 35.
        """
        response: ApiVersionsResponse = await self.send(_hello(), HELLO_VERSION)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            newest = next((api.max_version for api in response.api_keys if api.api_key == 18), 0)
            response = await self.send(_hello(), min(newest, HELLO_VERSION))
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), f"{self.address} rejected ApiVersions")
        self.versions = {
            api.api_key: VersionRange(api.min_version, api.max_version) for api in response.api_keys
        }
        self.features = {feature.name: feature.max_version_level for feature in response.finalized_features}

    async def _authenticate(self) -> None:
        session = Session(str(self.address), self._guard, self.send_nowait, self._write_held, self._finish)
        await session.begin()
        self._session = session

    def _write(self, message: Message, version: int) -> int:
        if self._end is not None:
            raise _again(self._end)
        assert self._transport is not None
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        header = RequestHeader(message.api_key, version, self._next_id, self.client_id)
        frame = encode_request(header, message)
        if self._session is None or not self._session.holds(message.api_key, frame):
            write_parts(self._transport, frame)
        return self._next_id

    def _write_held(self, frames: list[Any]) -> None:
        if self._end is None and self._transport is not None:
            write_parts(self._transport, frames)

    def _on_frame(self, frame: memoryview) -> None:
        waiting = self._waiting.pop(int.from_bytes(frame[:4], "big", signed=True), None)
        if waiting is None:
            self._finish(
                BrokenResponseError(f"{self.address} sent a response with an unknown correlation id")
            )
            return
        try:
            response = _decode(waiting, frame)
        except ProtocolError as error:
            broken = BrokenResponseError(
                f"{self.address} sent a malformed {waiting.response_class.NAME}: {error}"
            )
            _fail(waiting.answer, broken)
            self._finish(broken)
            return
        if not waiting.answer.done():
            waiting.answer.set_result(response)

    def _on_end(self, error: Exception | None) -> None:
        if isinstance(error, TlsAlertError):
            self._finish(TlsError(f"{self.address} {error}"))
        elif isinstance(error, ssl.SSLError) and not self.versions:
            # In TLS 1.3 the broker verifies our certificate after our side of the handshake has completed.
            self._finish(self._handshake_failed(error))
        else:
            reason = f": {error}" if error else ""
            self._finish(ConnectionLostError(f"{self.address} closed the connection{reason}{self._hint()}"))

    def _handshake_failed(self, error: ssl.SSLError) -> TlsError:
        return TlsError(f"{self.address} {explain_handshake(error, self._guard.security.tls)}")

    def _hint(self) -> str:
        """Likely cause: Kafka closes a connection silently if the security protocol does not match the port."""
        if not self.versions:
            return " (does this port use another security.protocol?)"
        if self._guard.mechanism is None and self._next_id <= _WITHOUT_NAME:
            return " on the first request (does this port require SASL? see security.protocol)"
        return ""

    def _reason(self, error: Exception) -> str:
        if isinstance(error, ConnectionRefusedError):
            return "connection refused (no process listens on that port)"
        if isinstance(error, socket.gaierror):
            return "the host name cannot be resolved"
        if isinstance(error, ConnectionError) and self._guard.context is not None:
            return f"it ended the TLS handshake{self._hint()}"
        return str(error)

    def _finish(self, end: ClientError) -> None:
        if self._end is not None:
            return
        self._end = end
        if self._transport is not None:
            self._transport.abort()
        waiting, self._waiting = self._waiting, {}
        for request in waiting.values():
            _fail(request.answer, end)


def _decode(waiting: _Waiting, frame: memoryview) -> Any:
    response_class, version = waiting.response_class, waiting.version
    if response_class is ApiVersionsResponse and frame[4:6] == _UNSUPPORTED_VERSION:
        version = 0
    return decode_response(response_class.api_key, version, response_class, frame)[1]


def _hello() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="barnabas", client_software_version=__version__)


def _again(end: ClientError) -> ClientError:
    """A fresh exception for a request sent after the connection ended."""
    if isinstance(end, SecurityError):
        return type(end)(*end.args)
    return ConnectionLostError(str(end))


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # mark as retrieved: an abandoned request must not be logged by asyncio
