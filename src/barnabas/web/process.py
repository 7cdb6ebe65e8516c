"""A web server as a process: until SIGTERM or Ctrl-C, or until the broker that started it exits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self

from barnabas.common.descriptors import raise_limit

STDIN = 0


class Server(ABC):
    """For `async with`, and for `run`."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    async def start(self) -> None:
        """Returns when clients are served."""

    @abstractmethod
    async def stop(self) -> None: ...


Serving = Callable[[], Server]
"""Creates the server on the loop that runs it."""


def run(serving: Serving, announce: Callable[[str], None], *, with_parent: bool = False) -> None:
    """`announce` gets the address once clients are served. `with_parent`: end when standard input does."""
    raise_limit()  # a shell's 1,024 descriptors are few for 1,000 connections
    asyncio.run(_run(serving, announce, with_parent))


async def _run(serving: Serving, announce: Callable[[str], None], with_parent: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if with_parent:
        loop.add_reader(STDIN, _read_on, stop)
    starting = asyncio.create_task(_serve(serving, announce, stop))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
    stopped.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting


async def _serve(serving: Serving, announce: Callable[[str], None], stop: asyncio.Event) -> None:
    async with serving() as server:
        announce(server.url)
        await stop.wait()


def _read_on(stop: asyncio.Event) -> None:
    if not os.read(STDIN, 4096):
        stop.set()
