"""Reading ZooKeeper again and again: a watch makes that sooner, but nothing depends on watches."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.types import OutcomeUnknownError, ZooKeeperError
from barnabas.common.safe_logging import safe_logger

logger = safe_logger(__name__)

POLL_AGAIN = 1.0  # seconds, while something that we wait for in ZooKeeper is not as it should be


class Poller:
    """Calls `poll` when it is woken up, and once in each session timeout. `poll` gets what its watches shall call."""

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
                pause = POLL_AGAIN / 10  # each attempt has waited long enough by itself
            except ZooKeeperError as error:
                logger.error("ZooKeeper: %s", error)
                pause = POLL_AGAIN
            except Exception:  # whatever it is: a poller that ends never hears of anything again
                logger.exception("what ZooKeeper says could not be acted on")
                pause = POLL_AGAIN
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._awake.wait()
