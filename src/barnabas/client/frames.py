"""Splits the socket's byte stream into response frames; large frames are received without a copy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from barnabas.common.files import Bytes
from barnabas.protocol.framing import LENGTH_BYTES, decode_length

SMALL_FRAMES = 64 * 1024  # one receive buffer of this size takes in many small answers at once
MAX_FRAME = 256 * 1024 * 1024  # no client asks for more; a larger length is not Kafka at the other end

LARGE_PARTS = 128 * 1024

_TLS_ALERT = b"\x15\x03"  # prefix of a TLS alert record


def write_parts(transport: asyncio.WriteTransport, parts: Sequence[Bytes]) -> None:
    """One frame. asyncio, before Python 3.12, puts the parts together and copies the rest twice that the socket did
    not take at once: too much for a MiB of records, which is handed over as it is."""
    if len(parts) == 1 or sum(map(len, parts)) < LARGE_PARTS:
        transport.writelines(parts)
    else:
        for part in parts:
            transport.write(memoryview(part))


class TlsAlertError(Exception):
    """The broker sent a TLS alert."""


class FrameReceiver(asyncio.BufferedProtocol):
    """Calls `on_frame` with each frame (its length prefix removed) and `on_end` once, at the end.

    Small frames are copied out of the shared buffer. A frame that does not fit gets a dedicated buffer,
    into which the socket delivers the rest.
    """

    def __init__(
        self, on_frame: Callable[[memoryview], None], on_end: Callable[[Exception | None], None]
    ) -> None:
        self._on_frame = on_frame
        self._on_end = on_end
        self._buffer = bytearray(SMALL_FRAMES)
        self._filled = 0
        self._large: bytearray | None = None
        self._large_filled = 0
        self.transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    async def drain(self) -> None:
        """Wait until the socket has taken most of what was written."""
        await self._writable.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        self._on_end(exc)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return memoryview(self._large)[self._large_filled :]
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._large is not None:
            self._large_filled += nbytes
            if self._large_filled == len(self._large):
                frame, self._large = self._large, None
                self._on_frame(memoryview(frame))
        else:
            self._filled += nbytes
            self._cut_frames()

    def _cut_frames(self) -> None:
        position = 0
        while self._filled - position >= LENGTH_BYTES:
            (size,) = decode_length(self._buffer, position)
            if not 0 <= size <= MAX_FRAME:
                self._refuse(size)
                return
            start = position + LENGTH_BYTES
            end = start + size
            if end > self._filled:
                break
            position = end
            self._on_frame(memoryview(bytes(self._buffer[start:end])))
        self._keep_rest(position)

    def _keep_rest(self, position: int) -> None:
        rest = self._filled - position
        self._buffer[:rest] = self._buffer[position : self._filled]
        self._filled = rest
        if rest < LENGTH_BYTES:
            return
        (size,) = decode_length(self._buffer)
        if size + LENGTH_BYTES > len(self._buffer):
            self._large = bytearray(size)
            self._large_filled = rest - LENGTH_BYTES
            self._large[: self._large_filled] = self._buffer[LENGTH_BYTES:rest]
            self._filled = 0

    def _refuse(self, size: int) -> None:
        assert self.transport is not None
        is_alert = self._buffer.startswith(_TLS_ALERT)
        self._filled = 0
        self.transport.abort()
        if is_alert:
            self._on_end(TlsAlertError("uses TLS on this port: set security.protocol to SSL or SASL_SSL"))
            return
        self._on_end(ValueError(f"sent a frame length of {size} bytes: this is not a Kafka broker"))
