"""The broker's side of a worker process."""

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


class JobFailed(Exception):  # noqa: N818 - reads as what happened
    """The job could not be done. Whatever it had begun is undone or can be thrown away."""


class NoRoom(JobFailed):
    """The disk was full. Nothing has changed, and the same job may succeed when there is room."""


class WorkerDied(JobFailed):
    """The process ended in the middle of the job: killed, or out of memory."""


class JobCancelled(Exception):  # noqa: N818 - no error
    """`cancel` was called in time."""


class WorkerProcess:
    """One process, which is started for the first job, and again for the next one after it died or was stopped."""

    def __init__(
        self, command: tuple[str, ...] = (sys.executable, "-m", "barnabas.log.compaction.worker")
    ) -> None:
        self._process = ChildProcess(command, decode_answer, self._received, self._received)
        self._answers: asyncio.Queue[Answer | int] = asyncio.Queue()
        """Of the current job; an exit code instead of an answer if the process ended."""
        self.is_busy = False

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.is_running

    async def run(self, job: Job, on_progress: Callable[[Part], None]) -> Result:
        """Have a job done, one at a time. Parts of the result are handed to `on_progress` as they come."""
        self.is_busy = True
        try:
            await self._start()
            self._process.send(encode(RunJob(job)))
            while isinstance(answer := await self._answers.get(), JobProgress):
                on_progress(answer.part)
        except BaseException:
            await self.stop()  # nobody listens to that job any more
            raise
        finally:
            self.is_busy = False
        return _result(answer)

    async def _start(self) -> None:
        try:
            await self._process.start()
        except OSError as error:
            raise WorkerDied(f"the worker process could not be started: {error}") from error
        self._answers = asyncio.Queue()  # without what an earlier process has left

    def _received(self, answer: Answer | int) -> None:
        self._answers.put_nowait(answer)

    def cancel(self) -> None:
        """Stop the job that is running, if there is one; `run` then raises JobCancelled."""
        if self.is_busy:
            self._process.send(encode(CancelJob()))

    async def stop(self) -> None:
        """End the process. It ends by itself when its input does; if it does not, it is killed."""
        await self._process.stop()


def _result(answer: Answer | int) -> Result:
    if isinstance(answer, int):
        raise WorkerDied(f"the worker process ended unexpectedly (exit code {answer})")
    if isinstance(answer, JobDone):
        return answer.result
    if isinstance(answer, Cancelled):
        raise JobCancelled
    assert isinstance(answer, Failed)
    raise (NoRoom if answer.no_room else JobFailed)(answer.reason)
