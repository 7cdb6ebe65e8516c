"""The console's side of one search process: jobs that run in it, and what becomes of them when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator

from barnabas.client.cluster import Closing
from barnabas.common.safe_logging import safe_logger
from barnabas.services.console.scanning.messages import (
    LENGTH,
    Answer,
    Cancel,
    Chunk,
    Done,
    Found,
    Job,
    Registry,
    Request,
    Run,
    Taken,
    decode_answer,
    encode,
    length_of,
)
from barnabas.services.console.scanning.model import SearchError, SearchFailedError

logger = safe_logger(__name__)

COMMAND = (sys.executable, "-m", "barnabas.services.console.scanning.worker")
STOP_SECONDS = 2.0
PIPE_BYTES = 1 << 20


class ProcessDiedError(SearchFailedError):
    """It was killed or ran out of memory. Other processes continue; it is restarted for the next search."""


class SearchProcess:
    """Started for the first job, and again for the next one after it died."""

    def __init__(self, command: tuple[str, ...] = COMMAND) -> None:
        self._command = command
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._jobs: dict[int, asyncio.Queue[Answer]] = {}
        self._number = 0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def busy(self) -> int:
        """Number of running jobs."""
        return len(self._jobs)

    async def start(self) -> None:
        async with self._starting:
            if self._reader is None or self._reader.done():
                self._process = await asyncio.create_subprocess_exec(
                    *self._command, stdin=PIPE, stdout=PIPE, limit=PIPE_BYTES
                )
                self._reader = asyncio.create_task(self._read(self._process))

    async def run(
        self, login: bytes, registry: Registry, job: Job
    ) -> AsyncGenerator[Found | Chunk | Done, None]:
        """Yield the answers to a job, `Done` last; raises SearchError if it failed. Closing it cancels the job."""
        await self.start()
        self._number += 1
        number, answers = self._number, asyncio.Queue[Answer]()
        self._jobs[number] = answers
        try:
            await self._send(Run(number, login, registry, job))
            while not isinstance(answer := await answers.get(), Done):
                yield answer
                await self._send(Taken(number))
            if answer.error:
                raise _failure(answer)
            yield answer
        finally:
            del self._jobs[number]
            if self._process is not None and self._process.stdin is not None:
                with contextlib.suppress(ConnectionError, RuntimeError):
                    self._process.stdin.write(encode(Cancel(number)))

    async def stop(self) -> None:
        """It ends when its input does; it is killed if it does not."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._reader is not None:
            await asyncio.gather(self._reader, return_exceptions=True)

    async def _send(self, request: Request) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        with contextlib.suppress(ConnectionError):  # the reader reports the exit
            process.stdin.write(encode(request))
            await process.stdin.drain()

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                prefix = await process.stdout.readexactly(LENGTH.size)
                answer = decode_answer(await process.stdout.readexactly(length_of(prefix)))
                if answer.number in self._jobs:
                    self._jobs[answer.number].put_nowait(answer)
        code = await process.wait()
        if self._jobs:
            logger.error("a search process ended with %d while it had %d searches", code, len(self._jobs))
        for number, answers in self._jobs.items():
            answers.put_nowait(Done(number, _sentence(code), _DIED))


_DIED = "process"


def _failure(done: Done) -> Exception:
    if done.field == _DIED:
        return ProcessDiedError(done.error)
    return SearchError(done.error, done.field) if done.field else SearchFailedError(done.error)


def _sentence(code: int) -> str:
    how = f"was killed (signal {-code})" if code < 0 else f"ended unexpectedly (exit code {code})"
    return f"the process that searched {how}; another one is started for the next search"


# -- The search processes of a console: as many as there are cores, at most four, kept warm ------------

MAX = 4


class Pool(Closing):
    def __init__(self, size: int | None = None, command: tuple[str, ...] = COMMAND) -> None:
        self.processes = [SearchProcess(command) for _ in range(size or min(MAX, _cores()))]

    async def start(self) -> None:
        """So that the first search does not wait for the processes to import what they need."""
        await asyncio.gather(*(process.start() for process in self.processes))

    async def close(self) -> None:
        await asyncio.gather(*(process.stop() for process in self.processes))

    def choose(self, count: int) -> list[SearchProcess]:
        """At most so many, those with the fewest jobs."""
        return sorted(self.processes, key=lambda process: process.busy)[: max(1, count)]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
