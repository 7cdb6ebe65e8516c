"""Processes beside a broker, such as the schema registry: started after it, started again when they die, ended with it.

A companion hears who it is and how it logs in over a pipe, so that no secret is in a command line or an environment.
The pipe stays open for as long as the broker lives: a companion ends when it ends, even after kill -9.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

from barnabas.common.retry import Backoff
from barnabas.common.safe_logging import safe_logger

logger = safe_logger(__name__)

STOP_TIMEOUT = 10.0
FIRST_PAUSE, MAX_PAUSE = 0.5, 30.0
LONG_ENOUGH = 60.0  # a process that lived so long starts the pauses anew


class Companion:
    """`arguments` are those of `barnabas`; `greeting` is the line that the process reads first."""

    def __init__(self, name: str, arguments: Sequence[str], greeting: Mapping[str, object]) -> None:
        self.name = name
        self._command = [sys.executable, "-m", "barnabas", *arguments]
        self._greeting = json.dumps(greeting).encode() + b"\n"
        self._process: subprocess.Popen[bytes] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_running())

    async def stop(self) -> None:
        """Ask it to end, by the end of its pipe; it is killed if it does not."""
        self._stopping = True
        process = self._process
        if process is not None:
            _hang_up(process)
            try:
                await asyncio.to_thread(process.wait, STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                logger.warning("the %s did not end by itself", self.name)
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
            self._process = await asyncio.to_thread(self._spawn)
            code = await asyncio.to_thread(self._process.wait)
            _hang_up(self._process)
            if self._is_stopping():
                return
            if loop.time() - began > LONG_ENOUGH:
                backoff.reset()
            pause = backoff.next_delay()
            logger.error("the %s ended with %d; it is started again in %g s", self.name, code, pause)
            await asyncio.sleep(pause)

    def _spawn(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already, and says why itself
            process.stdin.write(self._greeting)
            process.stdin.flush()
        return process


def _hang_up(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
