"""Invalid input for a TLS port: plaintext, and damaged TLS."""

from __future__ import annotations

import socket
import ssl
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.fuzz.damaging import damaged
from tests.fuzz.driving import Target
from tests.fuzz.key_updates import ASK_FOR_NONE, ASK_FOR_ONE, Writer
from tests.fuzz.lines import BLOCKED, CLOSED, tls_context

HANDSHAKE, ALERT, CHANGE_CIPHER, DATA = 22, 21, 20, 23
FLIGHTS = 6  # more than any handshake takes
_CONTEXTS = [tls_context(), tls_context(ssl.TLSVersion.TLSv1_2)]


def record(kind: int, body: bytes, version: int = 0x0303, length: int | None = None) -> bytes:
    return struct.pack(">BHH", kind, version, len(body) if length is None else length) + body


class Vandal:
    """`frame` builds requests for after the handshake."""

    def __init__(self, source: Random, frame: Callable[[], bytes]) -> None:
        self._source = source
        self._frame = frame

    def attack(self, target: Target) -> bytes:
        """Return the sent bytes."""
        kinds = (self._damaged_hello, self._records, self._other_protocols)
        try:
            with target.connection() as client:
                how = self._source.random()
                if how < 0.05:
                    return self._update_keys(target, client)
                if how < 0.5:
                    return self._damaged_conversation(target, client)
                thrown = self._source.choice(kinds)()
                _send(client, thrown)
                target.hear(client)
                return thrown
        except CLOSED:
            return b""

    def _damage(self, data: bytes) -> bytes:
        complete = struct.pack(">i", len(data)) + data
        return damaged(complete, [complete], self._source)[4:]

    # -- without a handshake ------------------------------------------------------------------------

    def _hello(self) -> bytes:
        return _Client(self._source.choice(_CONTEXTS)).next_flight(b"")

    def _damaged_hello(self) -> bytes:
        hello = self._hello()
        how = self._source.randrange(4)
        if how == 0:
            return self._damage(hello)
        body = hello[5:]
        if how == 1:  # a byte in each record
            return b"".join(record(HANDSHAKE, body[i : i + 1], 0x0301) for i in range(len(body)))
        if how == 2:  # lengths within that are not true
            lie = self._source.choice((0, 1, 0xFFFFFF, 0x20000, len(body)))
            return record(HANDSHAKE, b"\x01" + lie.to_bytes(3, "big") + body[4:], 0x0301)
        return hello * self._source.choice((2, 20))

    def _records(self) -> bytes:
        """Records of any kind, many of them, with lengths that need not be true."""
        source = self._source
        kinds = (HANDSHAKE, ALERT, CHANGE_CIPHER, DATA, 24, 0, 255)
        bodies = (b"", b"\x01", b"\x01\x00", b"\x02\x28", b"\x01" * 100, source.randbytes(40), bytes(1 << 14))
        one = record(
            source.choice(kinds),
            source.choice(bodies),
            source.choice((0x0303, 0x0301, 0x0300, 0x0304, 0, 0xFFFF)),
            source.choice((None, None, 0, 0xFFFF, 0x4000)),
        )
        start = self._hello() if source.random() < 0.5 else b""
        return start + one * source.choice((1, 3, 100, 5000 if len(one) < 200 else 10))

    def _other_protocols(self) -> bytes:
        return self._source.choice(
            (
                self._frame(),
                b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                b"\x80\x2e\x01\x00\x02" + bytes(60),  # SSL 2
                self._source.randbytes(self._source.randint(1, 2000)),
                b"\x00",
                b"",
            )
        )

    # -- in the middle of one -----------------------------------------------------------------------

    def _damaged_conversation(self, target: Target, client: socket.socket) -> bytes:
        """A handshake of which one flight is damaged, or a sound one with damaged records behind it."""
        tls = _Client(self._source.choice(_CONTEXTS))
        broken, sent, received = self._source.randint(1, FLIGHTS), [], b""
        for number in range(1, FLIGHTS):
            flight = tls.next_flight(received)
            sent.append(self._damage(flight) if number == broken and flight else flight)
            _send(client, sent[-1])
            if tls.is_done:
                break
            received = target.hear(client) or b""
            if not received:
                return b"".join(sent)
        sent.append(self._damaged_data(tls))
        _send(client, sent[-1])
        target.hear(client)
        return b"".join(sent)

    def _update_keys(self, target: Target, client: socket.socket) -> bytes:
        """New keys again and again, alone or with a little data between them."""
        context = tls_context()
        with tempfile.NamedTemporaryFile(prefix="barnabas-fuzz-secrets-") as secrets:
            context.keylog_filename = secrets.name
            tls, received = _Client(context), b""
            while not tls.is_done:
                _send(client, tls.next_flight(received))
                received = (target.hear(client) or b"") if not tls.is_done else b""
                if not tls.is_done and not received:
                    return b""
            writer = Writer.from_secrets(Path(secrets.name))
        frame, between = self._frame()[:1000], self._source.choice((1, 30, 300) * 5 + (10_000,))
        updates = [
            writer.key_update(self._source.choice((ASK_FOR_ONE, ASK_FOR_NONE))) for _ in range(between)
        ]
        flood = b"".join((*updates, writer.data(frame), *(writer.key_update() for _ in range(between))))
        _send(client, flood)
        target.hear(client)
        return flood

    def _damaged_data(self, tls: _Client) -> bytes:
        frame = self._frame()[:100_000]
        how = self._source.randrange(4)
        if how == 0:  # a byte in each record, and nothing wrong with it
            return b"".join(tls.encrypted(frame[i : i + 1]) for i in range(min(len(frame), 4000)))
        if how == 1:  # the same record twice
            return tls.encrypted(frame) * 2
        if how == 2:
            return tls.encrypted(frame) + record(self._source.randrange(256), bytes(20))
        return self._damage(tls.encrypted(frame))


class _Client:
    """TLS in memory."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self.is_done = False

    def next_flight(self, received: bytes) -> bytes:
        self._incoming.write(received)
        try:
            self._tls.do_handshake()
            self.is_done = True
        except BLOCKED:
            pass
        return self._outgoing.read()

    def encrypted(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._outgoing.read()


def _send(client: socket.socket, data: bytes) -> None:
    client.setblocking(True)
    client.settimeout(60.0)
    client.sendall(data)
    client.setblocking(False)
