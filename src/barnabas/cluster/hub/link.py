"""Frames over a socket pair: four bytes of length, then JSON. Descriptors travel with the frame that announces them."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

_LENGTH_BYTES = 4
_READ_BYTES = 1 << 18
_MAX_DESCRIPTORS = 16  # in one read
MAX_QUEUED_BYTES = 64 << 20
"""Output for a process that does not read, because it is stopped. Beyond this it is given up."""

_encoder = msgspec.json.Encoder()


def encode_frame(message: msgspec.Struct) -> bytes:
    text = _encoder.encode(message)
    return len(text).to_bytes(_LENGTH_BYTES, "big") + text


class LinkLostError(ConnectionError):
    """The other end has closed the link: its process has ended."""


class HubChannel(Generic[T]):
    """One end of a link, never blocking. `decode` returns the messages that arrive."""

    def __init__(self, end: socket.socket, kind: Any) -> None:
        end.setblocking(False)
        self._socket = end
        self._decoder = msgspec.json.Decoder(kind)
        self._input = bytearray()
        self._output: deque[tuple[bytes, list[int]]] = deque()
        self._descriptors: deque[int] = deque()
        self.queued_bytes = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        for descriptor in (*self._descriptors, *(fd for _, fds in self._output for fd in fds)):
            os.close(descriptor)
        self._descriptors.clear()
        self._output.clear()
        self._socket.close()

    # -- receiving ----------------------------------------------------------------------------------

    def receive(self) -> Iterator[T]:
        """Read what is there, and yield the complete messages; raise LinkLostError at the end."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, _READ_BYTES, _MAX_DESCRIPTORS)
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionError as error:
            raise LinkLostError(str(error)) from error
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
            self._descriptors.append(descriptor)
        if not data:
            raise LinkLostError("the other end is closed")
        self._input += data
        yield from self._frames()

    def _frames(self) -> Iterator[T]:
        position = 0
        while len(self._input) >= position + _LENGTH_BYTES:
            begin = position + _LENGTH_BYTES
            end = begin + int.from_bytes(self._input[position:begin], "big")
            if len(self._input) < end:
                break
            message = self._decoder.decode(bytes(self._input[begin:end]))
            position = end
            yield message
        del self._input[:position]

    def take_descriptor(self) -> socket.socket:
        """The socket that came with the current message."""
        return socket.socket(fileno=self._descriptors.popleft())

    # -- sending ------------------------------------------------------------------------------------

    def send(self, message: msgspec.Struct, passed: Sequence[socket.socket] = ()) -> None:
        """Send, or queue what the socket does not accept now. `passed` are duplicated."""
        frame = encode_frame(message)
        self._output.append((frame, [os.dup(each.fileno()) for each in passed]))
        self.queued_bytes += len(frame)
        self.flush()

    @property
    def is_overfull(self) -> bool:
        return self.queued_bytes > MAX_QUEUED_BYTES

    @property
    def has_output(self) -> bool:
        return bool(self._output)

    def flush(self) -> None:
        """Send what is queued, as far as the socket accepts it. A lost link is reported by `receive`."""
        try:
            while self._output:
                frame, descriptors = self._output[0]
                if descriptors:
                    sent = socket.send_fds(self._socket, [frame], descriptors)
                else:
                    sent = self._socket.send(frame)
                for descriptor in descriptors:
                    os.close(descriptor)
                self.queued_bytes -= sent
                if sent == len(frame):
                    self._output.popleft()
                else:
                    self._output[0] = (frame[sent:], [])
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionError:
            for _, descriptors in self._output:
                for descriptor in descriptors:
                    os.close(descriptor)
            self._output.clear()
            self.queued_bytes = 0
