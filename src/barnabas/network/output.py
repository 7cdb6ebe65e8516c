"""Pending output of a connection: bytes and slices of files, in order.

Sending never blocks the loop: a turn sends as much as the socket accepts, at most 1 MiB of files, and
schedules another call for the rest. While a thread reads a cold slice from the disk, only this connection
waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Final, TypeAlias

from barnabas.common.files import Bytes, FileSlice, MemoryFile
from barnabas.network.limits import SENT_BYTES_PER_TURN
from barnabas.network.page_residency import WARMED_AT_ONCE, Warmer, is_cached, read_if_cached, warm
from barnabas.network.transport import BLOCKED, MORE_FOLLOWS, Transport

# Small parts are joined and sent by one call; above this size, copying costs more than a second call.
JOINED_BYTES: Final = 64 * 1024

# A sendfile call costs about as much as copying this much (measured on Linux 6): shorter slices are sent as bytes,
# together with the head of their response.
COPIED_SLICE_BYTES: Final = 16 * 1024

Part: TypeAlias = Bytes | FileSlice


class Output:
    """The queue of one connection. `queued_bytes` counts bytes only: slices take no memory."""

    __slots__ = (
        "_failed", "_fetching", "_loop", "_progressed", "_send", "_sent_of_slice", "_slices",
        "_transport", "_waits", "_warm_until", "_warmer", "_watched", "closed", "parts", "queued_bytes",
    )  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        loop: asyncio.AbstractEventLoop,
        warmer: Warmer,
        progressed: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        self._transport = transport
        self._send = transport.send
        self._loop = loop
        self._warmer = warmer
        self._progressed = progressed  # called when pending output was sent
        self._failed = failed
        self.parts: deque[Part] = deque()
        self._slices = 0  # number of slices among the parts
        self._sent_of_slice = 0  # of the slice at the head of the queue
        self._warm_until = 0  # position in its file up to which that slice has been fetched by a thread
        self._waits = False  # for the socket or for a thread, which resumes sending
        self._fetching = False  # waiting for a thread
        self._watched = False  # the loop calls `_writable`; kept while the socket keeps filling up
        self.queued_bytes = 0
        self.closed = False

    def __bool__(self) -> bool:
        return bool(self.parts)

    def add(self, parts: Iterable[Part]) -> None:
        """Queue parts without sending them. Short slices that are in memory become bytes."""
        head: bytearray | None = None  # of this response: the bytes after it are sent with it
        for part in parts:
            if type(part) is FileSlice:
                length, file, data = part.length, part.file, None
                if length <= COPIED_SLICE_BYTES:
                    data = read_if_cached(file.fileno(), part.position, length, file.size)
                if data is None:
                    self._slices += 1
                    self.parts.append(part)
                    head = None
                    continue
                part = data
            size = len(part)
            self.queued_bytes += size
            if head is not None and len(head) + size <= JOINED_BYTES:
                head += part  # type: ignore[arg-type]  # no slice
                continue
            self.parts.append(part)
            head = part if type(part) is bytearray else None

    def add_bytes(self, data: bytearray) -> None:
        """Queue one part that is not a slice."""
        self.parts.append(data)
        self.queued_bytes += len(data)

    def flush(self) -> None:
        """Send as much as the socket and this turn's share allow."""
        parts = self.parts
        if self._waits or not parts:
            return
        try:
            if len(parts) == 1 and not self._slices:
                # Usually there is one response, and the socket accepts it.
                data: Bytes = parts[0]  # type: ignore[assignment]
                send = self._send
                sent = send(data, 0)
                self.queued_bytes -= sent
                if sent == len(data):
                    parts.clear()
                    return
                parts[0] = memoryview(data)[sent:]
            elif not self._slices:
                self._send_bytes()
            if parts:
                self._send_parts()
        except BLOCKED:
            self._wait_for_socket()
        except OSError as error:
            self._failed(f"cannot send: {error}")

    def close(self) -> None:
        self.closed = self._waits = True
        self.parts.clear()
        self._slices = self.queued_bytes = 0
        self._stop_watching()
        # Bound methods of the connection: a cycle, which the collector would not find among the objects that
        # it was asked to keep (`collector.keep_all`).
        self._progressed = self._failed = _ignored

    def _send_parts(self) -> None:
        share = SENT_BYTES_PER_TURN
        while self.parts and not self._waits:
            head = self.parts[0]
            if not isinstance(head, FileSlice):
                self._send_bytes()
            elif share > 0:
                share -= self._send_slice(head, share)
            else:
                self._wait_for_socket()

    def _send_bytes(self) -> None:
        """Send the leading bytes, joined if they are small."""
        parts = self.parts
        data: Bytes = parts.pop() if len(parts) == 1 else self._take_bytes(parts)  # type: ignore[assignment]
        try:
            send = self._send
            sent = send(data, MORE_FOLLOWS if parts else 0)
        except BLOCKED:
            parts.appendleft(data)
            raise
        self.queued_bytes -= sent
        if sent < len(data):
            parts.appendleft(memoryview(data)[sent:])

    def _take_bytes(self, parts: deque[Part]) -> Bytes:
        if not self._slices and self.queued_bytes <= JOINED_BYTES:
            data = b"".join(parts)  # type: ignore[arg-type]  # all are bytes
            parts.clear()
            return data
        taken = [parts.popleft()]
        total = len(taken[0])
        while parts and type(parts[0]) is not FileSlice and total + len(parts[0]) <= JOINED_BYTES:
            taken.append(parts.popleft())
            total += len(taken[-1])
        return taken[0] if len(taken) == 1 else b"".join(taken)  # type: ignore[arg-type, return-value]

    def _send_slice(self, piece: FileSlice, share: int) -> int:
        position = piece.position + self._sent_of_slice
        count = min(piece.length - self._sent_of_slice, share)
        fd = piece.file.fileno()
        if position < self._warm_until or is_cached(fd, position, count, piece.file.size):
            sent = self._transport.send_file(fd, position, count)
        elif isinstance(piece.file, MemoryFile):
            sent = self._send(piece.file.view(count, position), 0)
        else:
            self._fetch(piece, position, min(count, WARMED_AT_ONCE))
            return 0
        if sent == 0:
            raise OSError(f"{piece.file.path} ends before byte {position}, which was announced to a client")
        self._sent_of_slice += sent
        if self._sent_of_slice == piece.length:
            self.parts.popleft()
            self._slices -= 1
            self._sent_of_slice = self._warm_until = 0
        return sent

    def _fetch(self, piece: FileSlice, position: int, count: int) -> None:
        """Read the slice's next bytes into the page cache in a thread, then resume sending."""
        self._waits = self._fetching = True

        def read() -> int:
            warm(piece.file.fileno(), position, count)  # holds the slice, and so its file, until it is read
            return position + count

        self._warmer.submit(read).add_done_callback(self._fetched_in_thread)

    def _fetched_in_thread(self, future: Future[int]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._fetched, future)

    def _fetched(self, future: Future[int]) -> None:
        if self.closed or future.cancelled():
            return
        self._waits = self._fetching = False
        if error := future.exception():
            self._failed(f"cannot read: {error}")
            return
        self._warm_until = future.result()
        self.flush()
        self._progressed()

    def _wait_for_socket(self) -> None:
        self._waits = True
        if not self._watched:
            self._watched = True
            self._transport.start_writing(self._writable)

    def _writable(self) -> None:
        self._waits = False
        self.flush()
        if not self._waits or self._fetching:
            self._stop_watching()
        self._progressed()

    def _stop_watching(self) -> None:
        if self._watched:
            self._watched = False
            self._transport.stop_writing()


def _ignored(reason: str = "") -> None:
    """Ignore the call: the connection is closed."""
