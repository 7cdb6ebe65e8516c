"""The broker's event loop behaves like asyncio's: each test runs on both."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from barnabas.network.event_loop import DirectEventLoop, call_soon_of, new_event_loop

LOOPS = (new_event_loop, asyncio.SelectorEventLoop)
DEADLINE = 30.0

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=LOOPS, ids=("ours", "asyncio's"))
def run(request: pytest.FixtureRequest) -> Run:
    def run(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(coroutine, DEADLINE))

    return run


@contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, remote = socket.socketpair()
    ours.setblocking(False)
    with ours, remote:
        yield ours, remote


def reading(from_: socket.socket, got: asyncio.Queue[bytes]) -> Callable[[], None]:
    return lambda: got.put_nowait(from_.recv(100))


def test_a_reader_is_called_whenever_bytes_come_until_it_is_removed(run: Run) -> None:
    async def test() -> None:
        loop, got = asyncio.get_running_loop(), asyncio.Queue[bytes]()
        with pair() as (ours, remote):
            loop.add_reader(ours, reading(ours, got))
            for sent in (b"one", b"two"):
                remote.send(sent)
                assert await got.get() == sent
            assert loop.remove_reader(ours)
            assert not loop.remove_reader(ours)
            remote.send(b"three")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert got.empty()

    run(test())


def test_a_socket_has_a_reader_and_a_writer_at_a_time(run: Run) -> None:
    async def test() -> None:
        loop, got, written = asyncio.get_running_loop(), asyncio.Queue[bytes](), asyncio.Event()
        with pair() as (ours, remote):
            loop.add_reader(ours.fileno(), reading(ours, got))
            loop.add_writer(ours.fileno(), written.set)
            remote.send(b"one")
            await written.wait()
            assert await got.get() == b"one"
            assert loop.remove_reader(ours.fileno())
            written.clear()
            await written.wait()
            assert loop.remove_writer(ours.fileno())
            assert not loop.remove_writer(ours.fileno())

    run(test())


def test_reader_sees_that_the_peer_has_closed(run: Run) -> None:
    async def test() -> None:
        loop, got = asyncio.get_running_loop(), asyncio.Queue[bytes]()
        with pair() as (ours, remote):
            loop.add_reader(ours, reading(ours, got))
            remote.close()
            assert await got.get() == b""
            loop.remove_reader(ours)

    run(test())


def test_arguments_are_handed_on(run: Run) -> None:
    async def test() -> None:
        loop, got = asyncio.get_running_loop(), asyncio.Queue[str]()
        with pair() as (ours, _):
            loop.add_writer(ours, got.put_nowait, "writable")
            assert await got.get() == "writable"
            loop.remove_writer(ours)

    run(test())


def test_reader_requests_run_while_the_loop_is_idle(run: Run) -> None:
    async def test() -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Queue[str]()

        def read() -> None:
            ours.recv(100)
            loop.call_soon(done.put_nowait, "soon")
            loop.call_later(0.01, done.put_nowait, "later")
            loop.create_task(done.put("task"))

        with pair() as (ours, remote):
            loop.add_reader(ours, read)
            remote.send(b"x")
            assert [await done.get() for _ in range(3)] == ["soon", "task", "later"]
            loop.remove_reader(ours)

    run(test())


def test_a_timer_is_not_late_because_requests_keep_coming(run: Run) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        with pair() as (ours, remote):
            loop.add_reader(ours, lambda: remote.send(ours.recv(100)))  # there is always more
            remote.send(b"x")
            await asyncio.sleep(0.02)
            loop.remove_reader(ours)

    run(test())


def test_another_thread_wakes_the_loop(run: Run) -> None:
    async def test() -> None:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(woken.set))
        thread.start()
        await woken.wait()
        thread.join()

    run(test())


def test_exception_of_a_reader_goes_to_the_exception_handler_and_others_are_called(run: Run) -> None:
    async def test() -> None:
        loop, failed, got = asyncio.get_running_loop(), asyncio.Queue[str](), asyncio.Queue[bytes]()
        loop.set_exception_handler(lambda _, context: failed.put_nowait(str(context["exception"])))

        def fail() -> None:
            broken.recv(100)
            raise ValueError("no")

        with pair() as (broken, one), pair() as (complete, two):
            loop.add_reader(broken, fail)
            loop.add_reader(complete, reading(complete, got))
            one.send(b"x")
            two.send(b"y")
            assert await failed.get() == "no"
            assert await got.get() == b"y"
            one.close()  # an end is more than something to read
            assert await failed.get() == "no"
            for each in (broken, complete):
                loop.remove_reader(each)

    run(test())


def test_a_reader_that_is_removed_by_another_one_is_not_called(run: Run) -> None:
    async def test() -> None:
        loop, called, was_called = asyncio.get_running_loop(), list[str](), asyncio.Event()

        def remove_other(name: str, other: socket.socket) -> None:
            called.append(name)
            was_called.set()
            loop.remove_reader(other)

        with pair() as (left, one), pair() as (right, two):
            one.send(b"x")
            two.send(b"y")
            loop.add_reader(left, remove_other, "left", right)
            loop.add_reader(right, remove_other, "right", left)
            await was_called.wait()
            await asyncio.sleep(0)
            assert len(set(called)) == 1
            for each in (left, right):
                loop.remove_reader(each)

    run(test())


def test_streams_of_asyncio_work_on_it(run: Run) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1_000_000))
        writer.close()

    async def test() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        for _ in range(3):  # descriptors are used again
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(bytes(1_000_000))
            assert await reader.read(-1) == bytes(1_000_000)
            writer.close()
            await writer.wait_closed()
        server.close()

    run(test())


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_reader_may_stop_the_loop(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    loop = new_loop()
    with pair() as (ours, remote):
        loop.add_reader(ours, loop.stop)
        remote.send(b"x")
        loop.run_forever()
        loop.remove_reader(ours)
    loop.close()


def test_on_this_system_a_broker_has_a_loop_of_its_own() -> None:
    loop = new_event_loop()
    loop.close()
    assert isinstance(loop, DirectEventLoop) == hasattr(__import__("select"), "epoll")


def test_after_readers_callbacks_run_in_successive_iterations(run: Run) -> None:
    """Readers are called in between, so that work in slices does not block them; one that fails stops no other."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        call_soon, called, failed = call_soon_of(loop), [], []
        loop.set_exception_handler(lambda _, context: failed.append(context["exception"]))
        done = asyncio.Event()

        def fail() -> None:
            raise RuntimeError("on purpose")

        with pair() as (ours, remote):

            def read() -> None:
                called.append(ours.recv(100).decode())
                call_soon(lambda: called.append("after"))

            def work(left: int = 5) -> None:
                called.append("slice")
                if left == 4:
                    remote.send(b"read")
                call_soon(done.set if not left else lambda: work(left - 1))

            loop.add_reader(ours, read)
            call_soon(fail)
            call_soon(work)
            await done.wait()
            loop.remove_reader(ours)
        assert called.count("slice") == 6
        assert called.index("read") < called.index("after") < len(called) - 1
        assert called[-1] == "slice"
        assert [str(error) for error in failed] == ["on purpose"]

    run(scenario())
