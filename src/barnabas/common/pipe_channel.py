"""Framed messages on pipes between a process and its child: the frame, and the child's end of the pipes.

A frame is a four-byte length and the message. The parent's end is `child_process`; this module does not import asyncio,
which a child may not need.
"""

from __future__ import annotations

import os
import select
from struct import Struct

LENGTH = Struct(">I")
MAX_MESSAGE = 1 << 28
"""More than any message of ours; a longer one is output of another program."""
PARENT_CHECK_SECONDS = 5.0
"""Interval of checking that the parent still runs: a process forked from it may keep the pipe open."""


def frame(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


def message_length(prefix: bytes) -> int:
    """Decode the length prefix of a frame; raise ValueError if it exceeds MAX_MESSAGE."""
    length: int = LENGTH.unpack(prefix)[0]
    if length > MAX_MESSAGE:
        raise ValueError(f"message of {length} bytes exceeds {MAX_MESSAGE} bytes")
    return length


class ParentExitedError(Exception):
    """The parent process has ended, or has closed the pipe."""


class PipeChannel:
    """A child's pipes from and to its parent; blocking. Methods raise ParentExitedError after the parent's end."""

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
