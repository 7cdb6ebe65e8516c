"""Connections to the fuzzed broker: TCP or TLS, authenticated or not."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator
from itertools import cycle

from barnabas.client.security.scram import scram
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from barnabas.protocol.schema import Message
from tests.fuzz.variants import MECHANISMS, PASSWORD, USER, Variant

BLOCKED = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
CLOSED = (ConnectionError, ssl.SSLError)
RECEIVED_AT_ONCE = 1 << 20
LOGIN_NUMBER = 0x7FFFFFF0  # the correlation id of requests that log in


class LoginRefusedError(Exception):
    """The broker does not believe a client that is right."""


def tls_context(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = version
    return context


_contexts = cycle([tls_context(), tls_context(ssl.TLSVersion.TLSv1_2)])
_mechanisms = cycle(MECHANISMS)


def connected(port: int, variant: Variant, seconds: float) -> socket.socket:
    """A connection that does not block any more."""
    client = socket.socket()
    try:
        client.settimeout(seconds)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # No port stays in TIME_WAIT.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.connect(("127.0.0.1", port))
        if variant.has_tls:
            client = next(_contexts).wrap_socket(client)
        if variant.logs_in:
            _log_in(client, next(_mechanisms))
        client.setblocking(False)
    except BaseException:
        client.close()
        raise
    return client


def received(client: socket.socket) -> Iterator[bytes]:
    """Received bytes; empty at the end."""
    try:
        yield client.recv(RECEIVED_AT_ONCE)
        while isinstance(client, ssl.SSLSocket) and client.pending():
            yield client.recv(RECEIVED_AT_ONCE)
    except BLOCKED:
        return


def sent(client: socket.socket, data: memoryview) -> int:
    try:
        return client.send(data)
    except BLOCKED:
        return 0


def _log_in(client: socket.socket, mechanism: str) -> None:
    _ask(client, SaslHandshakeRequest(mechanism), 1)
    if mechanism == "PLAIN":
        _take(client, f"\0{USER}\0{PASSWORD}".encode())
        return
    exchange = scram(mechanism.removeprefix("SCRAM-").replace("-", "").lower(), USER, PASSWORD)
    challenge = _take(client, next(exchange))
    _take(client, exchange.send(challenge))


def _take(client: socket.socket, token: bytes) -> bytes:
    body = _ask(client, SaslAuthenticateRequest(token), 2)
    answer = decode_response(36, 2, SaslAuthenticateResponse, memoryview(body))[1]
    if answer.error_code:
        raise LoginRefusedError(str(answer))
    return bytes(answer.auth_bytes)


def _ask(client: socket.socket, message: Message, version: int) -> bytes:
    header = RequestHeader(message.api_key, version, LOGIN_NUMBER, "fuzz")
    client.sendall(b"".join(encode_request(header, message)))
    (length,) = struct.unpack(">i", _exactly(client, 4))
    return _exactly(client, length)


def _exactly(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = client.recv(count - len(data))
        if not piece:
            raise LoginRefusedError("the broker closes the connection of a client that is right")
        data += piece
    return data
