"""Connections for the load generators: plain, or with TLS 1.3 and P-256; and work on many of them at once."""

import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

_TIMEOUT_SECONDS = 120.0


def connect(port: int, authority: str | None = None) -> socket.socket:
    """With an authority to trust: after a full TLS handshake."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_SECONDS)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if authority is None:
        return plain
    try:
        return _context(authority).wrap_socket(plain, server_hostname="localhost")
    except BaseException:
        plain.close()
        raise


@cache
def _context(authority: str) -> ssl.SSLContext:
    """No session is ever given to it, so that each handshake is a full one."""
    context = ssl.create_default_context(cafile=authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_ecdh_curve("prime256v1")
    return context


def repeated(work: Callable[[], object], times: int, threads: int) -> float:
    """Does the work so often, in so many threads; the seconds that it took."""
    work()  # what is loaded by the first one is not measured
    with ThreadPoolExecutor(threads) as pool:
        begin = time.perf_counter()
        for done in [pool.submit(work) for _ in range(times)]:
            done.result()
        return time.perf_counter() - begin
