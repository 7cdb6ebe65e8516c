"""One POST to a token endpoint, which need not be friendly: no redirects, and bounds on time and size.

A redirect would carry the client's secret to another address. A timeout of urllib's is for one wait for the network,
and an endpoint may send a byte a second; so a timer shuts the connection when the time is up. Blocks: for a thread.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

MAX_ANSWER = 1024 * 1024


class TooLargeError(OSError):
    def __init__(self) -> None:
        super().__init__(f"its answer is larger than {MAX_ANSWER} bytes")


def post(request: urllib.request.Request, seconds: float) -> bytes:
    """The body of the answer. HTTPError for any status but 2xx; OSError, HTTPException when it did not work."""
    with _cut_off_after(seconds) as (sockets, is_over):
        try:
            with _opener(sockets).open(request, timeout=seconds) as response:
                body: bytes = response.read(MAX_ANSWER + 1)
        except urllib.error.HTTPError as refusal:
            refusal.close()  # it is a response
            raise
        except (OSError, http.client.HTTPException) as error:
            if is_over.is_set():
                raise TimeoutError(f"no whole answer in {seconds:g} s") from None
            raise error
        if is_over.is_set():
            raise TimeoutError(f"no whole answer in {seconds:g} s")
    if len(body) > MAX_ANSWER:
        raise TooLargeError
    return body


@contextlib.contextmanager
def _cut_off_after(seconds: float) -> Iterator[tuple[list[socket.socket], threading.Event]]:
    sockets: list[socket.socket] = []
    is_over = threading.Event()

    def cut_off() -> None:
        is_over.set()
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut_off)
    timer.daemon = True
    timer.start()
    try:
        yield sockets, is_over
    finally:
        timer.cancel()
        for one in sockets:
            one.close()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None  # the answer is an HTTPError then


def _opener(sockets: list[socket.socket]) -> urllib.request.OpenerDirector:
    """What it connects is noted in `sockets`. A proxy is used for https only, which it cannot read."""
    proxies = {scheme: url for scheme, url in urllib.request.getproxies().items() if scheme == "https"}

    def noted(address: tuple[str, int], *args: Any, **options: Any) -> socket.socket:
        made = socket.create_connection(address, *args, **options)
        sockets.append(made.dup())  # TLS takes the first one over, and it is gone then
        return made

    def connection(kind: type[http.client.HTTPConnection], host: str, **options: Any) -> Any:
        made: Any = kind(host, **options)
        made._create_connection = noted
        return made

    class Plain(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> Any:
            return self.do_open(
                lambda host, **options: connection(http.client.HTTPConnection, host, **options), req
            )

    class Encrypted(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> Any:
            return self.do_open(
                lambda host, **options: connection(http.client.HTTPSConnection, host, **options), req
            )

    return urllib.request.build_opener(urllib.request.ProxyHandler(proxies), _NoRedirects, Plain, Encrypted)
