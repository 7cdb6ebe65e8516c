"""A connection that sends raw frames, for requests that no client library sends."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Self, TypeVar

from barnabas.protocol import Message, RequestHeader, decode_response, encode_request, response_class
from barnabas.protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse

M = TypeVar("M", bound=Message)


def frame_of(message: Message, version: int, correlation_id: int = 1, client_id: str | None = "raw") -> bytes:
    header = RequestHeader(message.api_key, version, correlation_id, client_id)
    return b"".join(bytes(part) for part in encode_request(header, message))


class RawConnection:
    def __init__(self, port: int, timeout: float = 60.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def ask(self, message: Message, version: int) -> Message:
        self.send(frame_of(message, version))
        body = self.receive()
        assert body is not None, "the broker closed the connection"
        answer: Message
        answer = decode_response(message.api_key, version, response_class(message.api_key), memoryview(body))[
            1
        ]
        return answer

    def receive(self) -> bytes | None:
        """The next response without its length; None when the connection is closed."""
        try:
            length = self._exactly(4)
            return None if length is None else self._exactly(struct.unpack(">i", length)[0])
        except ConnectionError:
            return None

    def _exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                return None
            data += more
        return data

    def set_timeout(self, seconds: float) -> None:
        self._socket.settimeout(seconds)

    def is_served(self) -> bool:
        answer = self.ask(ApiVersionsRequest(), 0)
        return isinstance(answer, ApiVersionsResponse) and answer.error_code == 0

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
