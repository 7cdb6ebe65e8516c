"""Connections to clusters of a search process: one client for each login, closed when it was idle."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from barnabas.client.cluster import Client
from barnabas.services.console.scanning.login import unpack

IDLE_SECONDS = 60.0
MOST = 16


@dataclass
class _Kept:
    client: Client
    users: int = 0
    closing: asyncio.TimerHandle | None = field(default=None, repr=False)


class Clients:
    """A login is known by all that it says, password included: nobody gets the connection of another."""

    def __init__(self) -> None:
        self._kept: dict[bytes, _Kept] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def borrow(self, login: bytes) -> Client:
        kept = self._kept.get(login)
        if kept is None:
            self._make_room()
            asked = unpack(login)
            kept = _Kept(Client(asked.bootstrap, client_id="barnabas-console", security=asked.security))
            self._kept[login] = kept
        if kept.closing is not None:
            kept.closing.cancel()
        kept.users += 1
        return kept.client

    def give_back(self, login: bytes) -> None:
        kept = self._kept[login]
        kept.users -= 1
        if not kept.users:
            kept.closing = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._drop, login)

    def _make_room(self) -> None:
        if len(self._kept) >= MOST:
            idle = [login for login, kept in self._kept.items() if not kept.users]
            for login in idle[:1]:
                self._drop(login)

    def _drop(self, login: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self._kept.pop(login).client.close())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
