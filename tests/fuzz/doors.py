"""Through which listener frames come: in the clear, or over TLS and SASL, before or after the client has logged in."""

from __future__ import annotations

import ssl
from socket import socket
from typing import NamedTuple

from barnabas.protocol.framing import LENGTH_BYTES
from barnabas.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.fuzz.seeds import frame

USER, PASSWORD = "fuzzer", "of the fuzzer"
_WANTED = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
    "barnabas.tls.auto": "true",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    ),
    "connection.failed.authentication.delay.ms": "0",  # thousands of them fail
}


class Door(NamedTuple):
    is_secured: bool = False
    logs_in: bool = False

    def enter(self, client: socket) -> socket:
        """What is sent through from now on; the client has connected."""
        if not self.is_secured:
            return client
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        secured = context.wrap_socket(client)
        if self.logs_in:
            _ask(secured, frame(SaslHandshakeRequest("PLAIN"), 1))
            _ask(secured, frame(SaslAuthenticateRequest(f"\0{USER}\0{PASSWORD}".encode()), 2))
        return secured


DOORS = {
    "plain": Door(),
    "before": Door(is_secured=True),
    "after": Door(is_secured=True, logs_in=True),
}


def _ask(client: socket, question: bytes) -> None:
    client.sendall(question)
    left = int.from_bytes(_exactly(client, LENGTH_BYTES), "big")
    _exactly(client, left)


def _exactly(client: socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = client.recv(size - len(received))
        if not chunk:
            raise ConnectionResetError("the broker has closed the connection during the login")
        received += chunk
    return received


def send_some(client: socket, data: memoryview) -> int:
    try:
        return client.send(data)
    except _WANTED:
        return 0
    except ssl.SSLError as error:
        raise ConnectionResetError(str(error)) from error


def receive_some(client: socket, size: int) -> bytes | None:
    """None when what has come is not enough for a record of TLS; all that there is, because poll does not see what TLS
    has in its own memory."""
    try:
        received = client.recv(size)
        while received and isinstance(client, ssl.SSLSocket) and client.pending():
            received += client.recv(size)
    except _WANTED:
        return None
    except ssl.SSLError as error:
        raise ConnectionResetError(str(error)) from error
    return received
