"""The broker's side of a worker process."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable

from barnabas.log.compaction.worker.messages import (
    LENGTH,
    Answer,
    Cancel,
    Cancelled,
    Done,
    Failed,
    Job,
    Part,
    Progress,
    Request,
    Result,
    Run,
    decode_answer,
    encode,
    length_of,
)

STOP_SECONDS = 2.0
"""A job looks at its pipe every megabyte; who does not answer for this long hangs, in a disk most likely."""


class JobFailed(Exception):  # noqa: N818 - reads as what happened
    """The job could not be done. Whatever it had begun is undone or can be thrown away."""


class NoRoom(JobFailed):
    """The disk was full. Nothing has changed, and the same job may succeed when there is room."""


class WorkerDied(JobFailed):
    """The process ended in the middle of the job: killed, or out of memory."""


class JobCancelled(Exception):  # noqa: N818 - no error
    """`cancel` was called in time."""


class Worker:
    """One process, which is started for the first job, and again for the next one after it died or was stopped."""

    def __init__(
        self, command: tuple[str, ...] = (sys.executable, "-m", "barnabas.log.compaction.worker")
    ) -> None:
        self._command = command
        self._process: Process | None = None
        self.is_busy = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def run(self, job: Job, on_progress: Callable[[Part], None]) -> Result:
        """Have a job done, one at a time. Parts of the result are handed to `on_progress` as they come."""
        self.is_busy = True
        try:
            process = self._process
            if process is None or not self.is_running:
                process = self._process = await self._start()
            await self._send(process, Run(job))
            while isinstance(answer := await self._receive(process), Progress):
                on_progress(answer.part)
        except (EOFError, OSError, ValueError) as error:
            raise WorkerDied(await self._reap(error)) from error
        except BaseException:
            await self.stop()  # nobody listens to that job any more
            raise
        finally:
            self.is_busy = False
        return _result(answer)

    async def _start(self) -> Process:
        return await asyncio.create_subprocess_exec(*self._command, stdin=PIPE, stdout=PIPE)

    async def _send(self, process: Process, request: Request) -> None:
        assert process.stdin is not None
        process.stdin.write(encode(request))
        await process.stdin.drain()

    async def _receive(self, process: Process) -> Answer:
        assert process.stdout is not None
        prefix = await process.stdout.readexactly(LENGTH.size)
        return decode_answer(await process.stdout.readexactly(length_of(prefix)))

    def cancel(self) -> None:
        """Stop the job that is running, if there is one; `run` then raises JobCancelled."""
        process = self._process
        if self.is_busy and process is not None and process.stdin is not None:
            process.stdin.write(encode(Cancel()))

    async def stop(self) -> None:
        """End the process. It ends by itself when its input does; if it does not, it is killed."""
        process = self._process
        if process is not None:
            await _end(process)
            self._process = None

    async def _reap(self, error: Exception) -> str:
        """Make sure that the process is gone; how it ended."""
        process, self._process = self._process, None
        if process is None:
            return f"the worker process could not be started: {error}"
        await _end(process)
        return f"the worker process ended unexpectedly (exit code {process.returncode})"


async def _end(process: Process) -> None:
    """Kills only a process that does not end by itself: asyncio's `kill` asks for the exit code first, and where
    the process is just dying it takes the code away from the one who waits for it, who is then told 255."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _result(answer: Answer) -> Result:
    if isinstance(answer, Done):
        return answer.result
    if isinstance(answer, Cancelled):
        raise JobCancelled
    assert isinstance(answer, Failed)
    raise (NoRoom if answer.no_room else JobFailed)(answer.reason)
