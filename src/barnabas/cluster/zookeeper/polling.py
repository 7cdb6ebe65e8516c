"""Periodic reads of ZooKeeper: watches trigger them earlier, but nothing depends on watches."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.types import OutcomeUnknownError, ZooKeeperError
from barnabas.common.safe_logging import safe_logger

logger = safe_logger(__name__)

POLL_AGAIN = 1.0  # seconds between retries after an error or while waiting for a condition


class Poller:
    """Calls `poll` when woken up, and at least once per session timeout. `poll` gets the callback for its watches."""

    def __init__(self, poll: Callable[[Callable[[], None]], Awaitable[None]], zk: ZooKeeper) -> None:
        self._poll = poll
        self._zk = zk
        self._awake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        self._awake.set()

    def stop(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            self._awake.clear()
            pause = self._zk.session_timeout
            try:
                await self._poll(self.wake)
            except OutcomeUnknownError:
                pause = POLL_AGAIN / 10  # the attempt itself has waited for the timeout
            except ZooKeeperError as error:
                logger.error("ZooKeeper: %s", error)
                pause = POLL_AGAIN
            except Exception:  # a poller must never end
                logger.exception("error while processing data from ZooKeeper")
                pause = POLL_AGAIN
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._awake.wait()
