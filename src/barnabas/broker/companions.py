"""Child processes of a broker, such as the schema registry: started after it, restarted on exit, stopped with it.

A companion receives its identity and credentials over a pipe, so no secret appears on a command line or in an
environment. The broker keeps the pipe open; a companion exits when the pipe closes, even after kill -9 of the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from typing import Any, NamedTuple, Protocol

from barnabas.common.retry import Backoff
from barnabas.common.safe_logging import safe_logger

logger = safe_logger(__name__)

STOP_TIMEOUT = 10.0
FIRST_PAUSE, MAX_PAUSE = 0.5, 30.0
LONG_ENOUGH = 60.0  # uptime after which the restart backoff is reset


class CompanionStart(NamedTuple):
    """`arguments` follow `barnabas` on the command line; `greeting` is the first line on the standard input.

    A `quiet` companion prints no ready message.
    """

    name: str
    arguments: list[str]
    greeting: dict[str, Any]
    quiet: bool = False

    def spawn(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "barnabas", *self.arguments]
        stdout = subprocess.DEVNULL if self.quiet else None
        # Ctrl-C in a terminal is for the broker, which stops its companions: they are in another process group.
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stdout, process_group=0)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it exited early and logged the reason
            process.stdin.write(json.dumps(self.greeting).encode() + b"\n")
            process.stdin.flush()
        return process


class BrokerCompanion(Protocol):
    async def stop(self) -> None: ...


def hang_up(process: subprocess.Popen[bytes]) -> None:
    """Let a companion exit."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


class Companion:
    def __init__(self, start: CompanionStart) -> None:
        self.name = start.name
        self._start = start
        self._process: subprocess.Popen[bytes] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_running())

    async def stop(self) -> None:
        """Close the pipe and wait for the process to exit; kill it after STOP_TIMEOUT."""
        self._stopping = True
        process = self._process
        if process is not None:
            hang_up(process)
            try:
                await asyncio.to_thread(process.wait, STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                logger.warning("the %s did not exit in time; killing it", self.name)
                process.kill()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def _is_stopping(self) -> bool:
        return self._stopping

    async def _keep_running(self) -> None:
        loop, backoff = asyncio.get_running_loop(), Backoff(FIRST_PAUSE, MAX_PAUSE, jitter=0)
        while not self._is_stopping():
            began = loop.time()
            self._process = await asyncio.to_thread(self._start.spawn)
            code = await asyncio.to_thread(self._process.wait)
            hang_up(self._process)
            if self._is_stopping():
                return
            if loop.time() - began > LONG_ENOUGH:
                backoff.reset()
            pause = backoff.next_delay()
            logger.error("the %s exited with status %d; restarting it in %g s", self.name, code, pause)
            await asyncio.sleep(pause)
