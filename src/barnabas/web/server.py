"""HTTP server of the registry, the console and ingest: uvicorn with limits on heads, bodies and connections.

`WebServer` serves an ASGI application. `run` runs a service (`Server`) as a process until a signal stops it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from barnabas.common.descriptors import raise_limit
from barnabas.web.asgi import Receive, Scope, Send, headers_of

if TYPE_CHECKING:
    import uvicorn

KEEP_ALIVE = (
    75  # seconds; clients send a request now and then, and a new connection takes longer than a response
)
BACKLOG = 128
MAX_DISCARDED = 64 * 1024
"""Bytes of an unread body that are discarded after the response, so that the client gets the response and can reuse
the connection."""
PEER_CERTIFICATE = "peer_certificate"
"""Key in the `state` of a request's scope: the client's certificate in DER."""
STDIN = 0

App = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An ASGI application."""


@dataclass(frozen=True, slots=True)
class WebLimits:
    """Limits on clients (`uvicorn_protocol`). Timeouts do not apply to the application."""

    connections: int = 1000
    incomplete_per_address: int = 0
    """Connections of one client with an incomplete request; 0: half of `connections`."""
    head_seconds: float = 20.0
    body_seconds: float = 60.0
    """For the whole body."""
    body_rate: float = 1024.0
    """Minimum average rate in bytes per second; Apache httpd requires 500."""
    body_grace: float = 10.0
    """Seconds before `body_rate` applies."""
    answer_seconds: float = 60.0
    """Close a client that reads nothing of its response for this time."""
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """Exempt from `incomplete_per_address`: a proxy serves many clients."""

    def __post_init__(self) -> None:
        """Raise ValueError for a limit that would close every connection."""
        positive = (self.connections, self.head_seconds, self.body_seconds, self.body_rate)
        if min(positive) <= 0 or self.incomplete_per_address < 0:
            raise ValueError("connections, timeouts and the body rate must be greater than 0")

    @property
    def incomplete_limit(self) -> int:
        return self.incomplete_per_address or max(1, self.connections // 2)


def parse_networks(texts: Iterable[str]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Parse addresses and networks, for example 10.0.0.5 and 10.1.0.0/16."""
    return tuple(_network(each.strip()) for each in texts)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"not a valid address or network: {text!r} (example: 10.1.0.0/16)") from None


# -- uvicorn on a listening socket -----------------------------------------------------------------------


def bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol, asyncio disables Nagle's algorithm on accepted connections.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
    return listening


class WebServer:
    def __init__(self, app: App, tls: ssl.SSLContext | None = None, limits: WebLimits | None = None) -> None:
        self._http = _uvicorn_server(app, tls, limits or WebLimits())
        self._serving: asyncio.Task[None] | None = None

    async def start(self, listening: socket.socket) -> None:
        """Return when requests are served."""
        self._serving = asyncio.create_task(self._http.serve(sockets=[listening]))
        while not self._http.started:
            if self._serving.done():
                await self._serving
                raise RuntimeError("the HTTP server stopped during startup")
            await asyncio.sleep(0.001)

    def stop_accepting(self) -> None:
        """Stop accepting connections; pending requests are answered within two seconds."""
        self._http.should_exit = True

    async def stop(self) -> None:
        self.stop_accepting()
        if self._serving is not None:
            await self._serving
            self._serving = None


def _uvicorn_server(app: App, tls: ssl.SSLContext | None, limits: WebLimits) -> uvicorn.Server:
    """uvicorn without its signal handlers and logging: the process has those."""
    import uvicorn

    from barnabas.web.uvicorn_protocol import protocol_factory

    class QuietServer(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    config = uvicorn.Config(
        _closing_early(app),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        http=protocol_factory(limits, tls),  # type: ignore[arg-type]  # uvicorn only calls it
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=2,
        server_header=False,
        date_header=False,
    )
    config.load()
    return QuietServer(config)


def _closing_early(app: App) -> App:
    """Handle bodies that `app` does not read to the end.

    A short remainder is discarded; with a long one, the response announces that the connection closes. After uvicorn's
    400 for a malformed body, the application's response is dropped.
    """
    import h11

    async def serve(scope: Scope, receive: Receive, send_to_client: Send) -> None:
        body = _UnreadBody(scope, receive)
        is_closing = False

        async def send(message: MutableMapping[str, Any]) -> None:
            with contextlib.suppress(h11.LocalProtocolError):
                await send_to_client(message)

        async def send_closing(message: MutableMapping[str, Any]) -> None:
            nonlocal is_closing
            if message["type"] == "http.response.start":
                is_closing = body.is_long
                close = [(b"connection", b"close")] if is_closing else []
                await send({**message, "headers": [*message["headers"], *close]})
            elif is_closing and not message.get("more_body"):
                await send({**message, "more_body": True})
                await body.discard()
                await send({"type": "http.response.body", "body": b""})
            else:
                await send(message)

        await app(scope, body.receive, send_closing)

    return serve


class _UnreadBody:
    """Counts the bytes of a request's body that the application has not read."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = headers_of(scope)
        length = headers.get("content-length", "")
        is_chunked = "transfer-encoding" in headers
        self._unread = int(length) if length.isdecimal() else 1 << 62 if is_chunked else 0
        self._receive = receive

    @property
    def is_long(self) -> bool:
        return self._unread > MAX_DISCARDED

    async def receive(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        self._unread = self._unread - len(message.get("body", b"")) if message.get("more_body") else 0
        return message

    async def discard(self) -> None:
        """Read at most MAX_DISCARDED bytes."""
        end = max(0, self._unread - MAX_DISCARDED)
        while self._unread > end:
            await self.receive()


# -- A service as a process ------------------------------------------------------------------------------


class Server(ABC):
    """A service with an address, for `async with` and for `run`."""

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
        """Return when requests are served."""

    @abstractmethod
    async def stop(self) -> None: ...


def run(
    make_server: Callable[[], Server], announce: Callable[[str], None], *, with_parent: bool = False
) -> None:
    """Run a service until SIGTERM or SIGINT; `with_parent`: also until standard input is closed.

    `make_server` is called on the event loop, `announce` with the URL once requests are served.
    """
    raise_limit()  # a shell's limit of 1,024 descriptors is low for 1,000 connections
    asyncio.run(_run(make_server, announce, with_parent))


async def _run(make_server: Callable[[], Server], announce: Callable[[str], None], with_parent: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if with_parent:
        loop.add_reader(STDIN, _stop_at_end_of_input, stop)
    serving = asyncio.create_task(_serve(make_server, announce, stop))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        serving.cancel()
    stopped.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving


async def _serve(
    make_server: Callable[[], Server], announce: Callable[[str], None], stop: asyncio.Event
) -> None:
    async with make_server() as server:
        announce(server.url)
        await stop.wait()


def _stop_at_end_of_input(stop: asyncio.Event) -> None:
    if not os.read(STDIN, 4096):
        stop.set()
