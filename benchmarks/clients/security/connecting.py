"""Connections for the load generators, plain or with TLS 1.3 and P-256, and concurrent work on many of them."""

import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

_TIMEOUT_SECONDS = 120.0


def connect(port: int, authority: str | None = None) -> socket.socket:
    """Connect; with a CA file, perform a full TLS handshake."""
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
    """Context without session reuse, so that each handshake is a full one."""
    context = ssl.create_default_context(cafile=authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_ecdh_curve("prime256v1")
    return context


def repeated(work: Callable[[], object], times: int, threads: int) -> float:
    """Run `work` that many times in a thread pool; return the elapsed seconds."""
    work()  # warm-up
    with ThreadPoolExecutor(threads) as pool:
        begin = time.perf_counter()
        for done in [pool.submit(work) for _ in range(times)]:
            done.result()
        return time.perf_counter() - begin
