"""The worker process: jobs, failures and exit."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from barnabas.broker.worker_process import JobCancelled, JobFailed, WorkerDied, WorkerProcess
from barnabas.common.pipe_channel import frame
from barnabas.config.topic import LogConfig
from barnabas.log.compaction.candidates import CleanedGroup, CompactionLimits, CompactionPlan
from barnabas.log.compaction.swap import find_sources, swap_in
from barnabas.log.compaction.worker.messages import CancelJob, RunJob, encode
from barnabas.log.compaction.worker.serving import RateLimiter
from barnabas.log.log import Log
from tests.support.builders.compacted_logs import COMPACTED, final_values, plan_for, put, records
from tests.support.builders.logs import NOW, new_log
from tests.support.waiting import async_until

FAST, SLOW = CompactionLimits(1 << 20, 1e12), CompactionLimits(1 << 20, 1000.0)
DEADLINE = 60.0


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = new_log(tmp_path / "orders-0", COMPACTED)
    for number in range(200):
        put(log, (b"key-%d" % (number % 10), b"%d" % number))
    log.roll()
    return log


def plan(log: Log, effort: CompactionLimits = FAST) -> CompactionPlan:
    found = plan_for(log, effort=effort)
    assert found is not None
    return found


def with_worker(use: Callable[[WorkerProcess], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        worker = WorkerProcess()
        try:
            await asyncio.wait_for(use(worker), DEADLINE)
        finally:
            await worker.stop()

    asyncio.run(main())


async def started(worker: WorkerProcess) -> None:
    await async_until(lambda: worker.pid is not None)


def swap_into(log: Log) -> Callable[[CleanedGroup], None]:
    def swap(group: CleanedGroup) -> None:
        sources = find_sources(log, group.sources)
        assert sources is not None
        swap_in(log, sources, group.size, NOW)

    return swap


def test_a_job_is_done_in_another_process(log: Log) -> None:
    async def use(worker: WorkerProcess) -> None:
        result = await worker.run(plan(log), swap_into(log))
        assert result.cleaned_upto == 200
        assert worker.pid not in (None, os.getpid())

    expected = final_values(records(log))
    with_worker(use)
    assert final_values(records(log)) == expected
    assert len(records(log)) == 10


def test_one_process_does_many_jobs(log: Log) -> None:
    async def use(worker: WorkerProcess) -> None:
        await worker.run(plan(log), lambda group: None)
        first = worker.pid
        await worker.run(plan(log), lambda group: None)
        assert worker.pid == first

    with_worker(use)


def test_failed_job_reports_the_reason_and_the_process_continues(log: Log) -> None:
    async def use(worker: WorkerProcess) -> None:
        elsewhere = msgspec.structs.replace(plan(log), folder="/there/is/no/such/folder")
        with pytest.raises(JobFailed, match="No such file"):
            await worker.run(elsewhere, lambda group: None)
        pid = worker.pid
        await worker.run(plan(log), lambda group: None)
        assert worker.pid == pid

    with_worker(use)


def big_plan(tmp_path: Path) -> CompactionPlan:
    """Some megabytes at a kilobyte per second: it would take an hour."""
    log = new_log(tmp_path / "slow-0", LogConfig(cleanup_policy=frozenset({"compact"})))
    for number in range(30):
        put(log, (b"key-%d" % number, b"x" * 100_000))
    log.roll()
    return plan(log, SLOW)


def test_a_job_can_be_cancelled(tmp_path: Path) -> None:
    async def use(worker: WorkerProcess) -> None:
        task = asyncio.create_task(worker.run(big_plan(tmp_path), lambda group: None))
        await started(worker)
        worker.cancel()
        with pytest.raises(JobCancelled):
            await task

    with_worker(use)
    assert not list(tmp_path.rglob("*.cleaned"))


def test_a_killed_process_is_noticed_and_replaced(log: Log, tmp_path: Path) -> None:
    async def use(worker: WorkerProcess) -> None:
        task = asyncio.create_task(worker.run(big_plan(tmp_path), lambda group: None))
        await started(worker)
        killed = worker.pid or 0
        os.kill(killed, signal.SIGKILL)
        with pytest.raises(WorkerDied, match="exit code -9"):
            await task
        await worker.run(plan(log), lambda group: None)
        assert worker.pid != killed

    with_worker(use)


def test_a_process_that_was_killed_while_idle_is_replaced(log: Log) -> None:
    async def use(worker: WorkerProcess) -> None:
        await worker.run(plan(log), lambda group: None)
        killed = worker.pid or 0
        os.kill(killed, signal.SIGKILL)
        await async_until(lambda: not worker.is_running)
        await worker.run(plan(log), lambda group: None)
        assert worker.pid not in (None, killed)

    with_worker(use)


def test_a_signal_to_the_whole_group_leaves_the_end_to_the_broker(tmp_path: Path) -> None:
    async def use(worker: WorkerProcess) -> None:
        task = asyncio.create_task(worker.run(big_plan(tmp_path), lambda group: None))
        await started(worker)
        usual = os.getpriority(os.PRIO_PROCESS, 0)
        await async_until(
            lambda: os.getpriority(os.PRIO_PROCESS, worker.pid or 0) > usual
        )  # its first lines have run
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(worker.pid or 0, number)
        worker.cancel()
        with pytest.raises(JobCancelled):
            await task

    with_worker(use)


def test_disconnect_of_the_listener_ends_the_job(tmp_path: Path) -> None:
    async def use(worker: WorkerProcess) -> None:
        task = asyncio.create_task(worker.run(big_plan(tmp_path), lambda group: None))
        await started(worker)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert worker.pid is None

    with_worker(use)


def test_a_program_that_is_no_worker_is_a_failed_job(log: Log) -> None:
    async def main() -> None:
        for program in ("raise SystemExit(3)", "print('what?' * 100)"):
            worker = WorkerProcess((sys.executable, "-c", program))
            with pytest.raises(WorkerDied):
                await worker.run(plan(log), lambda group: None)
        missing = WorkerProcess(("/there/is/no/such/program",))
        with pytest.raises(WorkerDied, match="cannot start the worker process"):
            await missing.run(plan(log), lambda group: None)

    asyncio.run(main())


def test_exit_code_of_a_dying_process_is_its_own(log: Log) -> None:
    """The end of output precedes the exit code; killing it in between loses the code."""

    async def use() -> None:
        dying = WorkerProcess(
            (sys.executable, "-c", "import os, sys; os.close(1); sys.stdin.read(); os._exit(7)")
        )
        with pytest.raises(WorkerDied, match="exit code 7"):
            await dying.run(plan(log), lambda group: None)

    asyncio.run(use())


def start_bare() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "barnabas.log.compaction.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def test_the_process_ends_when_its_input_does() -> None:
    process = start_bare()
    output, _ = process.communicate(frame(encode(CancelJob())), timeout=DEADLINE)
    assert (process.returncode, output) == (0, b"")


def test_the_process_ends_in_the_middle_of_a_job_when_its_input_does(tmp_path: Path) -> None:
    process = start_bare()
    output, _ = process.communicate(frame(encode(RunJob(big_plan(tmp_path)))), timeout=DEADLINE)
    assert (process.returncode, output) == (0, b"")
    assert not list(tmp_path.rglob("*.cleaned"))


def test_the_process_gives_way_to_others() -> None:
    process = start_bare()
    try:
        assert process.stdin is not None
        process.stdin.write(frame(encode(RunJob(msgspec.structs.replace(EMPTY, folder="/nowhere")))))
        process.stdin.flush()
        assert process.stdout is not None
        process.stdout.read(4)  # it has started
        assert os.getpriority(os.PRIO_PROCESS, process.pid) > os.getpriority(os.PRIO_PROCESS, 0)
    finally:
        process.communicate(timeout=DEADLINE)


EMPTY = CompactionPlan(
    folder="",
    sources=[],
    later_segments=[],
    aborted_in_active=[],
    first_dirty=0,
    upper=0,
    now_ms=0,
    delete_retention_ms=0,
    segment_bytes=1,
    segment_index_bytes=1,
    index_interval_bytes=1,
    producers=[],
    key_memory_bytes=1000,
    bytes_per_second=1e12,
)


def test_a_throttle_keeps_below_its_rate_and_listens_meanwhile() -> None:
    now, checks = [0.0], []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    throttle = RateLimiter(1000.0, clock=lambda: now[0], sleep=sleep)
    for _ in range(5):
        throttle.acquire(1000, lambda: checks.append(now[0]))
    assert now[0] == pytest.approx(5.0)
    assert len(checks) >= 50
