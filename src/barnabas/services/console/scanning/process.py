"""Console side of one search process: its running jobs, and their failure if the process dies."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator

from barnabas.client import AsyncClosable
from barnabas.client.schemas import RegistryAccount
from barnabas.common.child_process import ChildProcess
from barnabas.common.cpus import usable_cpus
from barnabas.common.safe_logging import safe_logger
from barnabas.services.console.scanning.messages import (
    Answer,
    CancelScan,
    ExportChunk,
    Job,
    RunScan,
    ScanDone,
    ScanHits,
    Taken,
    decode_answer,
    encode,
)
from barnabas.services.console.scanning.model import SearchError, SearchFailedError

logger = safe_logger(__name__)

IDLE_SECONDS = 300.0
"""An idle process holds 250 MB; to start one takes about a second."""
COMMAND = (sys.executable, "-m", "barnabas.services.console.scanning.worker")


class ProcessDiedError(SearchFailedError):
    """Process was killed or ran out of memory. Other processes continue; this one is restarted for the next search."""


class SearchProcess:
    """Child process, started on the first job and restarted on the first job after it died."""

    def __init__(self, command: tuple[str, ...] = COMMAND, idle: float = IDLE_SECONDS) -> None:
        self._process = ChildProcess(command, decode_answer, self._received, self._exited)
        self._jobs: dict[int, asyncio.Queue[Answer]] = {}
        self._number = 0
        self._idle = idle
        self._turn = asyncio.Lock()
        self._stopping: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def busy(self) -> int:
        """Number of running jobs."""
        return len(self._jobs)

    @property
    def is_running(self) -> bool:
        return self._process.is_running

    async def start(self) -> None:
        """Start the process unless it runs. It is stopped after some minutes without a job."""
        async with self._turn:
            await self._process.start()
        self._stop_when_idle()

    async def run(
        self, login: bytes, registry: RegistryAccount, job: Job
    ) -> AsyncGenerator[ScanHits | ExportChunk | ScanDone, None]:
        """Yield the answers to a job, `ScanDone` last; raises the job's error if it failed. Closing cancels the job."""
        await self.start()
        self._number += 1
        number, answers = self._number, asyncio.Queue[Answer]()
        self._jobs[number] = answers
        try:
            self._process.send(encode(RunScan(number, login, registry, job)))
            while not isinstance(answer := await answers.get(), ScanDone):
                yield answer
                self._process.send(encode(Taken(number)))
            if answer.error:
                raise _failure(answer)
            yield answer
        finally:
            del self._jobs[number]
            self._process.send(encode(CancelScan(number)))
            self._stop_when_idle()

    async def stop(self) -> None:
        """Close the input of the process, which ends it; kill it if it does not exit."""
        if self._stopping is not None:
            self._stopping.cancel()
        async with self._turn:
            await self._process.stop()

    def _stop_when_idle(self) -> None:
        if self._stopping is not None:
            self._stopping.cancel()
        self._stopping = asyncio.get_running_loop().call_later(self._idle, self._idled)

    def _idled(self) -> None:
        if not self._jobs:
            task = asyncio.get_running_loop().create_task(self._stop_idle())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _stop_idle(self) -> None:
        async with self._turn:
            if not self._jobs:
                await self._process.stop()

    def _received(self, answer: Answer) -> None:
        if answer.number in self._jobs:
            self._jobs[answer.number].put_nowait(answer)

    def _exited(self, code: int) -> None:
        if self._jobs:
            logger.error("a search process ended with %d while it had %d searches", code, len(self._jobs))
        for number, answers in self._jobs.items():
            answers.put_nowait(ScanDone(number, _sentence(code), _DIED))


_DIED = "process"


def _failure(done: ScanDone) -> Exception:
    if done.field == _DIED:
        return ProcessDiedError(done.error)
    return SearchError(done.error, done.field) if done.field else SearchFailedError(done.error)


def _sentence(code: int) -> str:
    how = f"was killed (signal {-code})" if code < 0 else f"ended unexpectedly (exit code {code})"
    return f"the process that searched {how}; another one is started for the next search"


# -- Pool of search processes: one per core, at most four, started on demand -----------------------------------

MAX = 4


class Pool(AsyncClosable):
    def __init__(
        self, size: int | None = None, command: tuple[str, ...] = COMMAND, idle: float = IDLE_SECONDS
    ) -> None:
        self.processes = [SearchProcess(command, idle) for _ in range(size or min(MAX, usable_cpus()))]
        self._warming: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start all processes, so that the first search does not wait for their imports."""
        await asyncio.gather(*(process.start() for process in self.processes))

    @property
    def is_warm(self) -> bool:
        return any(process.is_running for process in self.processes)

    def warm(self) -> None:
        """Start one process in the background unless one runs: the next search need not wait for its imports."""
        if not self.is_warm and (self._warming is None or self._warming.done()):
            self._warming = asyncio.get_running_loop().create_task(self._warm())

    async def _warm(self) -> None:
        try:
            await self.processes[0].start()
        except OSError as error:
            logger.warning("no search process can be started: %s", error)

    async def close(self) -> None:
        if self._warming is not None:
            await self._warming
        await asyncio.gather(*(process.stop() for process in self.processes))

    def choose(self, count: int) -> list[SearchProcess]:
        """Return at most `count` processes: those with the fewest jobs, running ones first."""
        order = sorted(self.processes, key=lambda process: (process.busy, not process.is_running))
        return order[: max(1, count)]
