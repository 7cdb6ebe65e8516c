"""Broker side of a worker process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from barnabas.common.child_process import ChildProcess
from barnabas.log.compaction.worker import (
    Answer,
    CancelJob,
    Cancelled,
    Failed,
    Job,
    JobDone,
    JobProgress,
    Part,
    Result,
    RunJob,
    decode_answer,
    encode,
)


class JobFailed(Exception):  # noqa: N818 - named after the event
    """The job failed. Its partial results were removed or can be discarded."""


class JobDiskFull(JobFailed):
    """The disk was full. Nothing has changed; the job may succeed once there is free space."""


class WorkerDied(JobFailed):
    """The process exited during the job: killed, or out of memory."""


class JobCancelled(Exception):  # noqa: N818 - not an error
    """The job was cancelled before it finished."""


class WorkerProcess:
    """A process started by the first job, and again by the next job after it exited or was stopped."""

    def __init__(
        self, command: tuple[str, ...] = (sys.executable, "-m", "barnabas.log.compaction.worker")
    ) -> None:
        self._process = ChildProcess(command, decode_answer, self._received, self._received)
        self._answers: asyncio.Queue[Answer | int] = asyncio.Queue()
        """Answers to the current job, or the exit code of the process."""
        self.is_busy = False

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.is_running

    async def run(self, job: Job, on_progress: Callable[[Part], None]) -> Result:
        """Run one job at a time. `on_progress` receives partial results as they arrive."""
        self.is_busy = True
        try:
            await self._start()
            self._process.send(encode(RunJob(job)))
            while isinstance(answer := await self._answers.get(), JobProgress):
                on_progress(answer.part)
        except BaseException:
            await self.stop()  # its output is no longer needed
            raise
        finally:
            self.is_busy = False
        return _result(answer)

    async def _start(self) -> None:
        try:
            await self._process.start()
        except OSError as error:
            raise WorkerDied(f"cannot start the worker process: {error}") from error
        self._answers = asyncio.Queue()  # drops messages of a previous process

    def _received(self, answer: Answer | int) -> None:
        self._answers.put_nowait(answer)

    def cancel(self) -> None:
        """Cancel the running job, if any; `run` then raises JobCancelled."""
        if self.is_busy:
            self._process.send(encode(CancelJob()))

    async def stop(self) -> None:
        """Stop the process by closing its standard input; kill it if it does not exit."""
        await self._process.stop()


def _result(answer: Answer | int) -> Result:
    if isinstance(answer, int):
        raise WorkerDied(f"the worker process exited unexpectedly (exit code {answer})")
    if isinstance(answer, JobDone):
        return answer.result
    if isinstance(answer, Cancelled):
        raise JobCancelled
    assert isinstance(answer, Failed)
    raise (JobDiskFull if answer.no_room else JobFailed)(answer.reason)
