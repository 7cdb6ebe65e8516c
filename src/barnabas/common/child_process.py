"""Run a child process and exchange messages with it on the event loop. `pipe_channel` is the child's side."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from barnabas.common.pipe_channel import LENGTH, frame, message_length
from barnabas.common.safe_logging import safe_logger

logger = safe_logger(__name__)

M = TypeVar("M")
kept_open: list[int] = []
"""Descriptors that child processes keep open, so that their other ends notice when the last process has ended."""
PIPE_BYTES = 1 << 20
"""Read buffer of the child's output."""
GRACE_SECONDS = 2.0
"""Time for a child to exit after its input is closed. A child that takes longer hangs, probably on disk I/O."""


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Return the next message; raise IncompleteReadError at the end of the pipe, ValueError for another protocol."""
    return await reader.readexactly(message_length(await reader.readexactly(LENGTH.size)))


class ChildProcess(Generic[M]):
    """One process at a time: `start` replaces one that has ended.

    `on_message` gets each decoded message. `on_exit` gets the exit code once per process, after its last message and
    regardless of the cause: normal exit, kill, `stop` or invalid output.
    """

    def __init__(
        self,
        command: Sequence[str],
        decode: Callable[[bytes], M],
        on_message: Callable[[M], None],
        on_exit: Callable[[int], None],
    ) -> None:
        self._command = command
        self._decode = decode
        self._on_message = on_message
        self._on_exit = on_exit
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """None before the first start and after a stop."""
        return self._process.pid if self._process is not None else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the process unless it runs; raise OSError if that fails."""
        async with self._starting:
            if self.is_running:
                return
            await self._finish_reading()
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=PIPE, stdout=PIPE, limit=PIPE_BYTES, pass_fds=kept_open
            )
            self._reader = asyncio.create_task(self._read(self._process))

    def send(self, data: bytes) -> None:
        """Send a message; without effect if the process has ended, which `on_exit` reports."""
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            with contextlib.suppress(ConnectionError):
                process.stdin.write(frame(data))

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Close the child's input, which signals it to exit; kill it if it still runs after `grace` seconds."""
        process, self._process = self._process, None
        if process is not None:
            await _end(process, grace)
            await self._finish_reading()

    async def _finish_reading(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        try:
            while True:
                self._on_message(self._decode(await read_frame(process.stdout)))
        except (EOFError, OSError):
            pass  # the end of the pipe
        except Exception as error:
            logger.error("process %d is ended: it sent an invalid message: %s", process.pid, error)
        self._on_exit(await _end(process, GRACE_SECONDS))


async def _end(process: Process, grace: float) -> int:
    """Stop the process and return its exit code.

    Kills it only after the grace period: asyncio's `kill` polls the exit code first, and for an exiting process takes
    the code from the waiting task, which then gets 255.
    """
    assert process.stdin is not None
    process.stdin.close()
    try:
        return await asyncio.wait_for(process.wait(), grace)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return await process.wait()
