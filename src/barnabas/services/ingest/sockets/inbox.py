"""Queue of received messages waiting for a transaction. While it is full, sockets are not read: TCP senders block, and
the kernel drops and counts UDP datagrams that exceed its buffer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.services.ingest.sockets.framing import Frame

LIMIT = 8 * 1024 * 1024
FRAME_OVERHEAD = 200
"""Memory overhead per message in bytes."""


class ReceivedMessages(NamedTuple):
    frame: Frame
    peer: str
    at: int
    """Unix time in milliseconds."""


@dataclass(slots=True)
class ListenCounts:
    received: int = 0
    bytes: int = 0
    unparsed: int = 0
    truncated: int = 0
    framing_errors: int = 0
    refused: int = 0
    """Connections over the limit and failed TLS handshakes."""
    connections: int = 0
    """Open connections."""
    dropped: int = 0
    """Datagrams dropped by the kernel."""


class Inbox:
    def __init__(self, counts: ListenCounts, limit: int = LIMIT) -> None:
        self.counts = counts
        self.size = 0
        self._limit = limit
        self._waiting: deque[ReceivedMessages] = deque()
        self.on_change: Callable[[bool], None] = lambda is_full: None
        """Called with True when the inbox becomes full and with False when it has room again."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        return self.size >= self._limit

    def put(self, peer: str, frames: list[Frame], at: int) -> None:
        was_full = self.is_full
        for frame in frames:
            self._waiting.append(ReceivedMessages(frame, peer, at))
            self.size += len(frame.data) + FRAME_OVERHEAD
            self.counts.bytes += len(frame.data)
        self.counts.received += len(frames)
        if self.is_full and not was_full:
            self.on_change(True)

    def take(self, room: int) -> list[ReceivedMessages]:
        """Dequeue messages of about `room` bytes, at least one if any is queued."""
        was_full, taken, size = self.is_full, [], 0
        while self._waiting and size < room:
            received = self._waiting.popleft()
            taken.append(received)
            size += len(received.frame.data) + FRAME_OVERHEAD
        self.size -= size
        if was_full and not self.is_full:
            self.on_change(False)
        return taken
