"""TLS handshakes of all listeners of a broker: their costly steps in threads, and not too many at once.

A connection waits for one of two: a thread that does its next step, or its client. Clients decide how long the second
takes, so when there are too many, those that have waited for their client for long are closed, the oldest first. If
there are none, a listener rests: clients wait in the kernel's queue. `barnabas.first.request.timeout.ms` ends all
others.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from barnabas.network.tls_transport import TlsTransport

T = TypeVar("T")

THREADS = 2
LONG_SECONDS = 2.0  # a client on the other side of the world answers in a third of a second
REST_SECONDS = 0.05


class TooManyHandshakesError(ConnectionError):
    def __init__(self) -> None:
        super().__init__("too many TLS handshakes wait for their clients (barnabas.tls.handshakes.max)")


class Handshakes:
    """`ended` counts by outcome. Threads are started by the first handshake."""

    def __init__(self, at_once: int, monotonic: Callable[[], float]) -> None:
        self.at_once = at_once
        self.ended: Counter[str] = Counter()
        self._now = monotonic
        self._began: dict[TlsTransport, float] = {}  # in this order
        self._in_threads: set[TlsTransport] = set()
        self._pool: ThreadPoolExecutor | None = None

    def __len__(self) -> int:
        return len(self._began)

    def delay(self) -> float:
        """Return 0 when a connection may be accepted now, or the seconds after which to ask again."""
        has_room = len(self._began) < self.at_once or self._overdue() is not None
        return 0.0 if has_room else REST_SECONDS

    def begin(self, transport: TlsTransport) -> None:
        if len(self._began) >= self.at_once and (overdue := self._overdue()) is not None:
            overdue.fail(TooManyHandshakesError())
        self._began[transport] = self._now()

    def _overdue(self) -> TlsTransport | None:
        """The oldest one that waits for its client, if it has waited for long."""
        oldest = next((each for each in self._began if each not in self._in_threads), None)
        if oldest is None or self._now() < self._began[oldest] + LONG_SECONDS:
            return None
        return oldest

    def step(self, transport: TlsTransport, tls: ssl.SSLObject) -> None:
        self._in_threads.add(transport)
        loop = asyncio.get_running_loop()

        def done(future: Future[None]) -> None:
            if not future.cancelled() and not loop.is_closed():
                loop.call_soon_threadsafe(self._stepped, transport, future.exception())

        self._threads().submit(tls.do_handshake).add_done_callback(done)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Reading key stores takes long, too."""
        return await asyncio.get_running_loop().run_in_executor(self._threads(), work)

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="barnabas-handshake")
        return self._pool

    def _stepped(self, transport: TlsTransport, error: BaseException | None) -> None:
        self._in_threads.discard(transport)
        transport.stepped(error)

    def end(self, transport: TlsTransport, outcome: str) -> None:
        if self._began.pop(transport, None) is not None:
            self.ended[outcome] += 1

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
