"""A registry as a process: until SIGTERM or Ctrl-C, or until the broker that started it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

from barnabas.registry.server import RegistryServer, RegistrySettings

STDIN = 0


def run(settings: RegistrySettings, announce: Callable[[str], None], *, with_parent: bool = False) -> None:
    """`announce` gets the address once schemas can be looked up. `with_parent`: end when standard input does."""
    asyncio.run(_run(settings, announce, with_parent))


async def _run(settings: RegistrySettings, announce: Callable[[str], None], with_parent: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if with_parent:
        loop.add_reader(STDIN, _read_on, stop)
    starting = asyncio.create_task(_serve(settings, announce, stop))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
    stopped.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting


async def _serve(settings: RegistrySettings, announce: Callable[[str], None], stop: asyncio.Event) -> None:
    async with RegistryServer(settings) as server:
        announce(server.url)
        await stop.wait()


def _read_on(stop: asyncio.Event) -> None:
    if not os.read(STDIN, 4096):
        stop.set()
