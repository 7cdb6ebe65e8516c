"""Event loop of a broker: asyncio's, with direct calls for files watched by `add_reader` and `add_writer`.

asyncio turns each event into a handle, queues it, and runs the queue in a context: 0.6 µs, a twentieth of a
small request. Here the selector calls the function directly before it returns to asyncio, and selects again
if asyncio has nothing to do: no callback, no timer, no event. A broker under load rarely runs a full asyncio
iteration. The order is asyncio's with one exception: callbacks of `call_soon` run after the readers of the
next iteration, not before. Only epoll is supported; elsewhere the loop is asyncio's own.
"""

from __future__ import annotations

import asyncio
import select
import selectors
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context
from typing import Any, Final, Protocol, TypeVarTuple, Unpack

READ: Final = getattr(select, "EPOLLIN", 0)
WRITE: Final = getattr(select, "EPOLLOUT", 0)
READ_AND_WRITE: Final = READ | WRITE

Args = TypeVarTuple("Args")
Callback = Callable[[], object]

_PASSED_ON = (SystemExit, KeyboardInterrupt)  # as asyncio does


class HasFileno(Protocol):
    def fileno(self) -> int: ...


FileLike = int | HasFileno


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Create the event loop of a broker."""
    return DirectEventLoop() if hasattr(select, "epoll") else asyncio.new_event_loop()


def call_soon_of(loop: asyncio.AbstractEventLoop) -> Callable[[Callback], object]:
    """Return the cheapest function of a loop that calls another in this turn or in the next one."""
    return loop.call_after_readers if isinstance(loop, DirectEventLoop) else loop.call_soon


class DirectSelector(selectors.BaseSelector):
    """Selector for two kinds of files: those registered by asyncio, and those whose callbacks are called
    here.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._readers: dict[int, Callback] = {}
        self._writers: dict[int, Callback] = {}
        self.is_wanted = False
        """Asyncio has work: the next `select` must not block."""
        self.after_readers: list[Callback] = []
        """Called after the readers of the current turn, or of the next one."""
        self.failed: Callable[[Callback, BaseException], None] = _raise

    # Interface used by asyncio

    def register(self, fileobj: FileLike, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = _fd_of(fileobj)
        if fd in self._keys:
            raise KeyError(f"{fileobj!r} is registered already")
        self._epoll.register(fd, _mask(events))
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        return key

    def unregister(self, fileobj: FileLike) -> selectors.SelectorKey:
        fd = _fd_of(fileobj)
        key = self._keys.pop(fd)
        self._forget(fd)
        return key

    def modify(self, fileobj: FileLike, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = _fd_of(fileobj)
        if events != self._keys[fd].events:
            self._epoll.modify(fd, _mask(events))
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        return key

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def close(self) -> None:
        self._epoll.close()
        for each in (self._keys, self._readers, self._writers):
            each.clear()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Call the callbacks of watched files, then return the ready files of asyncio."""
        end = time.monotonic() + timeout if timeout else 0.0
        self.is_wanted = False
        ready: list[tuple[selectors.SelectorKey, int]] = []
        readers, poll = self._readers, self._epoll.poll
        while True:
            wait = 0 if self.after_readers else timeout
            events = poll(wait, len(self._keys) + len(readers) + len(self._writers) or 1)
            for fd, event in events:
                reader = readers.get(fd)
                if reader is None or event != READ:
                    self._take(fd, event, ready)
                    continue
                try:
                    reader()
                except _PASSED_ON:
                    raise
                except BaseException as error:
                    self.failed(reader, error)
            has_called = self._call_after_readers() if self.after_readers else False
            if ready or self.is_wanted or not (events or has_called) or timeout == 0:
                return ready
            if timeout is not None:
                timeout = end - time.monotonic()
                if timeout <= 0:
                    return ready

    def _take(self, fd: int, event: int, ready: list[tuple[selectors.SelectorKey, int]]) -> None:
        """Handle an event of asyncio, or one beyond plain readability. Errors and hang-ups count as both
        kinds.
        """
        key = self._keys.get(fd)
        if key is not None:
            mask = (selectors.EVENT_READ if event & ~WRITE else 0) | (
                selectors.EVENT_WRITE if event & ~READ else 0
            )
            ready.append((key, mask & key.events))
            return
        if event & ~WRITE and (reader := self._readers.get(fd)) is not None:
            self._call(reader)
        if event & ~READ and (writer := self._writers.get(fd)) is not None:
            self._call(writer)

    def _call_after_readers(self) -> bool:
        """Call the callbacks that are registered now: those that they register are called in the next turn."""
        callbacks, self.after_readers = self.after_readers, []
        for callback in callbacks:
            self._call(callback)
        return True

    def _call(self, callback: Callback) -> None:
        try:
            callback()
        except _PASSED_ON:
            raise
        except BaseException as error:
            self.failed(callback, error)

    # Files with direct callbacks

    def watch(
        self, fileobj: FileLike, *, reader: Callback | None = None, writer: Callback | None = None
    ) -> None:
        """Call a function whenever a file is readable, or writable, until `unwatch`."""
        fd = _fd_of(fileobj)
        before = self._watched(fd)
        if reader is not None:
            self._readers[fd] = reader
        if writer is not None:
            self._writers[fd] = writer
        if not before:
            self._epoll.register(fd, self._watched(fd))
        elif before != self._watched(fd):
            self._epoll.modify(fd, READ_AND_WRITE)

    def unwatch(self, fileobj: FileLike, callbacks: dict[int, Callback]) -> bool:
        """Remove one of a file's callbacks; return whether there was one."""
        fd = _fd_of(fileobj)
        if callbacks.pop(fd, None) is None:
            return False
        left = self._watched(fd)
        if left:
            self._epoll.modify(fd, left)
        else:
            self._forget(fd)
        return True

    def unwatch_reader(self, fileobj: FileLike) -> bool:
        return self.unwatch(fileobj, self._readers)

    def unwatch_writer(self, fileobj: FileLike) -> bool:
        return self.unwatch(fileobj, self._writers)

    def _watched(self, fd: int) -> int:
        return (READ if fd in self._readers else 0) | (WRITE if fd in self._writers else 0)

    def _forget(self, fd: int) -> None:
        with suppress(OSError):  # closed: epoll has removed it already
            self._epoll.unregister(fd)


class DirectEventLoop(asyncio.SelectorEventLoop):
    """See the module docstring. Any new work for asyncio makes the selector return to it."""

    def __init__(self) -> None:
        self._direct = DirectSelector()
        super().__init__(self._direct)
        self._direct.failed = self._callback_failed

    def add_reader(self, fd: FileLike, callback: Callable[[Unpack[Args]], object], *args: *Args) -> None:
        self._direct.watch(fd, reader=_bound(callback, args))

    def remove_reader(self, fd: FileLike) -> bool:
        return self._direct.unwatch_reader(fd) or super().remove_reader(
            fd
        )  # asyncio also calls it for its own files

    def add_writer(self, fd: FileLike, callback: Callable[[Unpack[Args]], object], *args: *Args) -> None:
        self._direct.watch(fd, writer=_bound(callback, args))

    def remove_writer(self, fd: FileLike) -> bool:
        return self._direct.unwatch_writer(fd) or super().remove_writer(fd)

    def call_soon(
        self, callback: Callable[[Unpack[Args]], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        self._direct.is_wanted = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self._direct.is_wanted = True
        return super().call_at(when, callback, *args, context=context)

    def call_after_readers(self, callback: Callback) -> None:
        """Call a function after the readers of this turn: sooner than `call_soon`, without handle and context. Called
        outside of a turn, or by another of these functions, it waits for the next turn.
        """
        self._direct.after_readers.append(callback)

    def stop(self) -> None:
        self._direct.is_wanted = True
        super().stop()

    def _callback_failed(self, callback: Callback, error: BaseException) -> None:
        self.call_exception_handler({"message": f"Exception in callback {callback!r}", "exception": error})


def _bound(callback: Callable[..., object], args: tuple[Any, ...]) -> Callback:
    return (lambda: callback(*args)) if args else callback


def _fd_of(fileobj: FileLike) -> int:
    return fileobj if isinstance(fileobj, int) else fileobj.fileno()


def _mask(events: int) -> int:
    return (READ if events & selectors.EVENT_READ else 0) | (WRITE if events & selectors.EVENT_WRITE else 0)


def _raise(callback: Callback, error: BaseException) -> None:
    raise error
