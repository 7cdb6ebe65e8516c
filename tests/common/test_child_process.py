"""A child process that responds, dies, hangs or is another program."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from barnabas.common.child_process import ChildProcess
from barnabas.common.pipe_channel import MAX_MESSAGE, ParentExitedError, PipeChannel, frame, message_length

DEADLINE = 60.0
ECHO = """
import os
from barnabas.common.pipe_channel import ParentExitedError, PipeChannel
channel = PipeChannel(0, 1)
try:
    while True:
        message = channel.receive()
        if message == b"die":
            os._exit(7)
        channel.send(message.upper())
except ParentExitedError:
    pass
"""
HANGING = "import time\nwhile True: time.sleep(100)"


class Parent:
    """Received messages and exit codes."""

    def __init__(self, program: str = ECHO, command: Sequence[str] | None = None) -> None:
        self.arrived: asyncio.Queue[str | int] = asyncio.Queue()
        self.child = ChildProcess(
            command or (sys.executable, "-c", program),
            bytes.decode,
            self.arrived.put_nowait,
            self.arrived.put_nowait,
        )

    async def next(self) -> str | int:
        return await asyncio.wait_for(self.arrived.get(), DEADLINE)


def run(use: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(use(), DEADLINE))


def test_messages_go_both_ways_in_order() -> None:
    async def use() -> None:
        parent = Parent()
        await parent.child.start()
        assert parent.child.pid not in (None, os.getpid())
        for text in ("a", "", "b" * 1_000_000):
            parent.child.send(text.encode())
        assert [await parent.next() for _ in range(3)] == ["A", "", "B" * 1_000_000]
        await parent.child.stop()
        assert await parent.next() == 0
        assert not parent.child.is_running

    run(use)


def test_starting_twice_starts_one_process() -> None:
    async def use() -> None:
        parent = Parent()
        await asyncio.gather(parent.child.start(), parent.child.start())
        pid = parent.child.pid
        await parent.child.start()
        assert parent.child.pid == pid
        await parent.child.stop()
        assert await parent.next() == 0
        assert parent.arrived.empty()

    run(use)


def test_an_exit_is_reported_after_the_last_message_and_a_start_replaces_the_process() -> None:
    async def use() -> None:
        parent = Parent()
        await parent.child.start()
        first = parent.child.pid
        parent.child.send(b"last")
        parent.child.send(b"die")
        assert [await parent.next(), await parent.next()] == ["LAST", 7]
        parent.child.send(b"nobody reads this")
        await parent.child.start()
        assert parent.child.pid != first
        parent.child.send(b"again")
        assert await parent.next() == "AGAIN"
        await parent.child.stop()

    run(use)


def test_a_killed_process_is_reported_with_its_signal() -> None:
    async def use() -> None:
        parent = Parent()
        await parent.child.start()
        os.kill(parent.child.pid or 0, signal.SIGKILL)
        assert await parent.next() == -signal.SIGKILL
        assert not parent.child.is_running
        await parent.child.stop()

    run(use)


def test_a_process_that_hangs_is_killed_after_the_grace_period() -> None:
    async def use() -> None:
        parent = Parent(HANGING)
        await parent.child.start()
        await parent.child.stop(grace=0.1)
        assert await parent.next() == -signal.SIGKILL

    run(use)


@pytest.mark.parametrize("output", [b"no frame" * 100, frame(b"\xff")], ids=["length", "content"])
def test_a_program_that_writes_something_else_is_ended(output: bytes) -> None:
    async def use() -> None:
        parent = Parent(f"import os, sys\nos.write(1, {output!r})\nsys.stdin.read()")
        await parent.child.start()
        assert await parent.next() == 0
        assert not parent.child.is_running

    run(use)


def test_a_program_that_does_not_exist_is_an_error_of_the_start() -> None:
    async def use() -> None:
        parent = Parent(command=("/there/is/no/such/program",))
        with pytest.raises(FileNotFoundError):
            await parent.child.start()
        assert parent.child.pid is None
        await parent.child.stop()

    run(use)


# -- The child's end ---------------------------------------------------------------------------------------


def test_channel_reassembles_messages_from_chunks() -> None:
    inward, outward = os.pipe(), os.pipe()
    channel = PipeChannel(inward[0], outward[1])
    assert not channel.has_input(0)
    data = frame(b"message") + frame(b"")
    os.write(inward[1], data[:6])
    assert channel.has_input(DEADLINE)
    os.write(inward[1], data[6:])
    assert (channel.receive(), channel.receive()) == (b"message", b"")
    channel.send(b"answer")
    assert os.read(outward[0], 100) == frame(b"answer")
    for descriptor in (*inward, *outward):
        os.close(descriptor)


def test_a_channel_reports_the_end_of_its_parent() -> None:
    inward, outward = os.pipe(), os.pipe()
    channel = PipeChannel(inward[0], outward[1])
    os.write(inward[1], frame(b"half a message")[:-1])
    os.close(inward[1])
    os.close(outward[0])
    with pytest.raises(ParentExitedError):
        channel.receive()
    with pytest.raises(ParentExitedError):
        channel.send(b"answer")
    os.close(inward[0])
    os.close(outward[1])


def test_a_frame_that_is_too_long_is_refused() -> None:
    assert message_length(frame(bytes(1000))[:4]) == 1000
    with pytest.raises(ValueError, match="exceeds"):
        message_length((MAX_MESSAGE + 1).to_bytes(4, "big"))
