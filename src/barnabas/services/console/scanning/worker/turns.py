"""Turns that the users of a search process share fairly: for its jobs, and for each step of their work."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count


class FairTurns:
    """At most `limit` turns at a time, `most_each` per user. A free one goes to the waiting user with the fewest turns,
    and among these to the one whose last turn is the longest ago: many searches of one user do not delay another."""

    def __init__(self, limit: int, most_each: int | None = None) -> None:
        self._most, self._most_each = limit, limit if most_each is None else most_each
        self._held = Counter[str]()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._granted: dict[str, int] = {}
        """Order of the last grants, of users who hold or wait for turns."""
        self._numbers = count()

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        await self._acquire(user)
        try:
            yield
        finally:
            self._release(user)

    async def _acquire(self, user: str) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(waiter)
        self._grant()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._release(user)  # granted at the same moment
            else:
                self._forget(user, waiter)
            raise

    def _release(self, user: str) -> None:
        self._held[user] -= 1
        self._grant()
        self._held += Counter[str]()  # drop users without turns
        for each in self._granted.keys() - self._held.keys() - self._waiting.keys():
            del self._granted[each]

    def _grant(self) -> None:
        while self._held.total() < self._most:
            users = [each for each in self._waiting if self._held[each] < self._most_each]
            if not users:
                return
            user = min(users, key=lambda each: (self._held[each], self._granted.get(each, -1)))
            waiter = self._waiting[user][0]
            self._forget(user, waiter)
            if not waiter.done():
                self._held[user] += 1
                self._granted[user] = next(self._numbers)
                waiter.set_result(None)

    def _forget(self, user: str, waiter: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(user)
        if waiting is not None and waiter in waiting:
            waiting.remove(waiter)
            if not waiting:
                del self._waiting[user]
