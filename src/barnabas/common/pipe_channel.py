"""Framed messages on pipes between a parent and a child process: the frame format and the child's side.

A frame is a four-byte length and the message. The parent's side is `child_process`. This module does not import
asyncio, so that a child can start without it.
"""

from __future__ import annotations

import os
import select
from struct import Struct

LENGTH = Struct(">I")
MAX_MESSAGE = 1 << 28
"""Larger than any valid message: a longer one is output of another program."""
PARENT_CHECK_SECONDS = 5.0
"""Interval for checking that the parent still runs: another process forked from it may keep the pipe open."""


def frame(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


def message_length(prefix: bytes) -> int:
    """Decode the length prefix of a frame; raise ValueError if it exceeds MAX_MESSAGE."""
    length: int = LENGTH.unpack(prefix)[0]
    if length > MAX_MESSAGE:
        raise ValueError(f"message of {length} bytes exceeds {MAX_MESSAGE} bytes")
    return length


class ParentExitedError(Exception):
    """The parent process exited or closed the pipe."""


class PipeChannel:
    """Pipes between a child and its parent; blocking. Methods raise ParentExitedError once the parent has exited."""

    def __init__(self, input_fd: int, output_fd: int) -> None:
        self._input = input_fd
        self._output = output_fd
        self._parent = os.getppid()

    def receive(self) -> bytes:
        """Wait for a message."""
        while not self.has_input(PARENT_CHECK_SECONDS):
            pass
        return self._read(message_length(self._read(LENGTH.size)))

    def has_input(self, seconds: float) -> bool:
        """Return True as soon as a message arrives, False after `seconds`."""
        readable, _, _ = select.select([self._input], [], [], seconds)
        if not readable and os.getppid() != self._parent:
            raise ParentExitedError
        return bool(readable)

    def send(self, data: bytes) -> None:
        unsent = memoryview(frame(data))
        try:
            while unsent:
                unsent = unsent[os.write(self._output, unsent) :]
        except BrokenPipeError:
            raise ParentExitedError from None

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = os.read(self._input, count - len(data))
            if not chunk:
                raise ParentExitedError
            data += chunk
        return data
