"""TLS of a broker's listeners: one context each, used for new connections."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

from barnabas.config.broker import BrokerConfig
from barnabas.network.tls_transport import Buffers, TlsTransport
from barnabas.security.authn import SecuritySettingError
from barnabas.security.tls import (
    Identify,
    ListenerTls,
    OwnCertificate,
    TlsSettings,
    of_listener,
    own_certificate,
    server_context,
)

if TYPE_CHECKING:
    from barnabas.network.tls_transport import TlsTransport


# -- TLS handshakes of all listeners of a broker: expensive steps in threads, with a limit on their number

T = TypeVar("T")

THREADS = 2
LONG_SECONDS = 2.0  # a client on another continent answers in a third of a second
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
        """Return 0 when a connection may be accepted now, or the seconds to wait."""
        has_room = len(self._began) < self.at_once or self._overdue() is not None
        return 0.0 if has_room else REST_SECONDS

    def begin(self, transport: TlsTransport) -> None:
        if len(self._began) >= self.at_once and (overdue := self._overdue()) is not None:
            overdue.fail(TooManyHandshakesError())
        self._began[transport] = self._now()

    def _overdue(self) -> TlsTransport | None:
        """Return the oldest handshake that waits for its client, if it has waited too long."""
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
        """Run slow work, such as reading key stores, in a thread."""
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


HANDSHAKES_AT_ONCE = 1000

Fingerprint = tuple[tuple[int, ...], ...]


class TlsListener:
    """The TLS of one listener. A new context is for new connections; open ones keep theirs."""

    def __init__(self, wanted: ListenerTls, handshakes: Handshakes, buffers: Buffers) -> None:
        self._handshakes = handshakes
        self._buffers = buffers
        self.wanted: ListenerTls
        self.certificate: OwnCertificate
        self._context: ssl.SSLContext
        self._identify: Identify
        self._files: Fingerprint
        files = fingerprint(wanted)
        self.use(wanted, *loaded(wanted), files)

    def use(
        self, wanted: ListenerTls, context: ssl.SSLContext, certificate: OwnCertificate, files: Fingerprint
    ) -> None:
        self.wanted, self._context, self.certificate, self._files = wanted, context, certificate, files
        self._identify = Identify(wanted.mapping_rules)

    @property
    def context(self) -> ssl.SSLContext:
        """The context of new connections."""
        return self._context

    def differs(self, wanted: ListenerTls) -> bool:
        """Return whether these settings, or the contents of their files, differ from those in use."""
        return wanted != self.wanted or fingerprint(wanted) != self._files

    def wrap(self, accepted: socket.socket, loop: asyncio.AbstractEventLoop) -> TlsTransport:
        return TlsTransport(accepted, loop, self._context, self._handshakes, self._buffers, self._identify)


def fingerprint(wanted: ListenerTls | TlsSettings) -> Fingerprint:
    """Return a value that changes with one of the files. A symbolic link to another target is another file."""
    return tuple(_state(path) for path in wanted.files)


def _state(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def loaded(wanted: ListenerTls) -> tuple[ssl.SSLContext, OwnCertificate]:
    """Load the files; raises ConfigError if they are not usable. It may take a tenth of a second."""
    assert wanted.tls.certificate is not None
    context = server_context(wanted)
    try:
        return context, own_certificate(wanted.tls.certificate)
    except SecuritySettingError as error:
        raise of_listener(wanted.listener, error) from None


class Reload(Protocol):
    """Applies changed settings and files."""

    def use(self, config: BrokerConfig) -> None: ...
    async def check(self, config: BrokerConfig) -> None: ...
    def stop(self) -> None: ...


class TlsListeners:
    """TLS listeners of one broker, and their shared state."""

    def __init__(
        self,
        wanted: Iterable[ListenerTls] = (),
        handshakes_at_once: int = HANDSHAKES_AT_ONCE,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.handshakes = Handshakes(handshakes_at_once, monotonic)
        self.reload: Reload | None = None
        of_each = list(wanted)
        buffers = Buffers() if of_each else None
        self._listeners = {
            each.listener: TlsListener(each, self.handshakes, buffers) for each in of_each if buffers
        }

    def __iter__(self) -> Iterator[TlsListener]:
        return iter(self._listeners.values())

    def __getitem__(self, listener: str) -> TlsListener:
        return self._listeners[listener]

    def __contains__(self, listener: str) -> bool:
        return listener in self._listeners

    def use(self, config: BrokerConfig) -> None:
        """Apply settings that were changed at runtime to new connections."""
        if self.reload is not None and self._listeners:
            self.reload.use(config)

    async def check(self, config: BrokerConfig) -> None:
        """Raises ConfigError if the key stores of these settings cannot be used."""
        if self.reload is not None and self._listeners:
            await self.reload.check(config)

    def close(self) -> None:
        if self.reload is not None:
            self.reload.stop()
        self.handshakes.close()
