"""Addresses of the other brokers of the cluster, from their registrations.

Brokers often register host names. These are resolved in a thread when an address is checked and the cached
answer is stale: a broker that is not recognised at first is recognised when it retries.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections.abc import Callable, Iterable

LOOK_UP_SECONDS = 10.0


class BrokerAddresses:
    def __init__(
        self, hosts: Callable[[], Iterable[str]], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """`hosts` returns a name or address for each other broker; it is called on every check."""
        self._hosts = hosts
        self._now = monotonic
        self._found: dict[str, frozenset[str]] = {}
        self._looked_up: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return sum(1 for _ in self._hosts())

    def __contains__(self, address: str) -> bool:
        hosts = set(self._hosts())
        for host in hosts:
            if not _is_address(host):
                self._refresh(host)
        return address in hosts or any(address in self._found.get(host, ()) for host in hosts)

    def _refresh(self, host: str) -> None:
        now = self._now()
        if now < self._looked_up.get(host, float("-inf")) + LOOK_UP_SECONDS:
            return
        self._looked_up[host] = now
        task = asyncio.get_running_loop().create_task(self._look_up(host))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_up(self, host: str) -> None:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError:
            return  # keep the last known addresses
        self._found[host] = frozenset(str(address[0]) for *_, address in found)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
