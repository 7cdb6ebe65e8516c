"""Looking at ZooKeeper again and again: watches make it sooner, but nothing depends on them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from barnabas.cluster.zookeeper_session import ZooKeeper
from barnabas.cluster.zookeeper_types import OutcomeUnknownError, ZooKeeperError
from barnabas.log_lines import safe_logger

logger = safe_logger(__name__)

LOOK_AGAIN = 1.0  # seconds, while something that we wait for in ZooKeeper is not as it should be


class Look:
    """Looks at ZooKeeper whenever it is woken up, and now and then."""

    def __init__(self, look: Callable[[Callable[[], None]], Awaitable[None]], zk: ZooKeeper) -> None:
        self._look = look
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
                await self._look(self.wake)
            except OutcomeUnknownError:
                pause = LOOK_AGAIN / 10  # each attempt has waited long enough by itself
            except ZooKeeperError as error:
                logger.error("ZooKeeper: %s", error)
                pause = LOOK_AGAIN
            except Exception:  # whatever it is, who stops looking never hears of anything again
                logger.exception("what ZooKeeper says could not be acted on")
                pause = LOOK_AGAIN
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._awake.wait()
