"""Fault injection in the sink, for processes that tests cannot reach otherwise.

A fault is `place:action:file`. When the place is reached and the file is there, it is removed, and the process kills
itself (`kill`: no `finally`, no goodbye) or waits until somebody wakes it up (`pause`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

from barnabas.client.producing.batch_producer import TransactionalBatchProducer
from barnabas.spark.sink import protocol
from barnabas.spark.sink.driver import SinkDriver
from barnabas.spark.sink.state import SinkState

TIMEOUT = 300.0  # for tests that fail: others wake it up, or kill it

_installed: list[str] = []


def flag_of(fault: str) -> Path:
    return Path(fault.split(":", 2)[2])


def wake_up_file(flag: Path) -> Path:
    return flag.with_suffix(".wake")


def install(wanted: str) -> None:
    """Put the fault into the classes that this process uses."""
    _installed.append(wanted)
    if len(_installed) > 1:
        return
    perform, end, send = SinkDriver._perform, SinkDriver._end, TransactionalBatchProducer.send
    ended, one_by_one = 0, asyncio.Lock()

    async def perform_with_fault(self: SinkDriver, step: protocol.Step) -> Any:
        nonlocal ended, one_by_one
        ended, one_by_one = 0, asyncio.Lock()  # of this step's loop
        name = _name(step)
        _reach(f"before {name}")
        answer = await perform(self, step)
        _reach(f"after {name}")
        return answer

    async def end_with_fault(self: SinkDriver, part: Any) -> Any:
        """One after the other, where the sink sends all at once: otherwise there is no between."""
        nonlocal ended
        async with one_by_one:
            answer = await end(self, part)
            ended += 1
            if ended == 1:
                _reach("between two EndTxn")
            return answer

    async def send_with_fault(self: TransactionalBatchProducer, batches: Any) -> None:
        is_task = not (self.transactional_id or "").endswith("driver")
        if is_task:
            _reach("before the task's rows")
        await send(self, batches)
        if is_task:
            _reach("after the task's rows")

    SinkDriver._perform = perform_with_fault  # type: ignore[method-assign]
    SinkDriver._end = end_with_fault  # type: ignore[method-assign]
    TransactionalBatchProducer.send = send_with_fault  # type: ignore[method-assign, assignment]


def _name(step: protocol.Step) -> str:
    if not isinstance(step, protocol.Write):
        return type(step).__name__
    state = step.state or SinkState()
    if state.pending:
        return "the decision"
    return "done" if state.decided >= 0 else "the run"


def _reach(place: str) -> None:
    wanted, action, file = _installed[-1].split(":", 2)
    if place != wanted:
        return
    flag = Path(file)
    try:
        flag.unlink()
    except FileNotFoundError:
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    deadline = time.monotonic() + TIMEOUT
    while not wake_up_file(flag).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
