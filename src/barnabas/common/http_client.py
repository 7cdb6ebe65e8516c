"""Blocking HTTP/1.1 client for threads: one deadline and a bounded body per request, no redirects.

A redirect could send credentials to another host, or lead to a server that only this machine can reach. A timeout of
`http.client` applies to each read, so a slow server can exceed it indefinitely; here one deadline covers the request
from the connection to the last byte, except for name resolution. Failures are OSErrors: HttpError for a status,
TimeoutError for the deadline. An invalid URL is a ValueError.
"""

from __future__ import annotations

import base64
import io
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import SplitResult, unquote, urlsplit

from barnabas.common.retry import Deadline

if TYPE_CHECKING:  # imported on the first request: many processes send none
    import http.client
    import ssl

    from _typeshed import WriteableBuffer

MAX_BYTES = 1024 * 1024
"""Default limit of a response body."""
NO_HEADERS: Mapping[str, str] = {}
_DEFAULT_PORTS = {"http": 80, "https": 443}
_PROXY_PORT = 443


class HttpError(OSError):
    """Response with a status other than 2xx."""

    def __init__(self, status: int, body: bytes = b"") -> None:
        super().__init__(f"HTTP status {status}")
        self.status = status
        self.body = body


class HttpResponse(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes

    def raise_for_status(self) -> Self:
        """Return the response if its status is 2xx; raise HttpError otherwise."""
        if not 200 <= self.status < 300:
            raise HttpError(self.status, self.body)
        return self


def fetch(
    url: str,
    *,
    method: str = "GET",
    body: bytes = b"",
    headers: Mapping[str, str] = NO_HEADERS,
    timeout: float,
    max_bytes: int = MAX_BYTES,
    tls: ssl.SSLContext | None = None,
    use_proxy: bool = False,
) -> HttpResponse:
    """Send one request on a new connection and return the response of any status; options as in HttpSession."""
    parts = urlsplit(url)
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    base_url = f"{parts.scheme}://{parts.netloc}"
    session = HttpSession(base_url, timeout=timeout, max_bytes=max_bytes, tls=tls, use_proxy=use_proxy)
    with session:
        return session.request(method, path, body, {**headers, "Connection": "close"})


class HttpSession:
    """Requests to one server on a persistent connection. Not thread-safe.

    `tls` holds the trusted certificates, by default the system's. `use_proxy` tunnels https through the proxy of the
    environment; http never uses a proxy. `may_repeat` allows a second attempt if the server closes the persistent
    connection during a request, which the server may then process twice.
    """

    def __init__(
        self,
        base_url: str,
        *,
        timeout: float,
        max_bytes: int = MAX_BYTES,
        headers: Mapping[str, str] = NO_HEADERS,
        tls: ssl.SSLContext | None = None,
        use_proxy: bool = False,
        may_repeat: bool = False,
    ) -> None:
        self._base = urlsplit(base_url)
        if self._base.scheme not in _DEFAULT_PORTS or not self._base.hostname:
            raise ValueError(f"not a valid HTTP URL: {base_url!r} (example: https://host:8443/path)")
        self._host = self._base.hostname
        self._port = self._base.port or _DEFAULT_PORTS[self._base.scheme]
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._headers = {"Host": _authority(self._base), "User-Agent": "barnabas", **headers}
        self._tls = tls
        self._use_proxy = use_proxy
        self._may_repeat = may_repeat
        self._connection: http.client.HTTPConnection | None = None
        self._socket: _TimedSocket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        connection, self._connection, self._socket = self._connection, None, None
        if connection is not None:
            connection.close()

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> HttpResponse:
        """Send a request for `path` below the base URL; return the response of any status."""
        target = f"/{(self._base.path.rstrip('/') + path).removeprefix('/')}"
        deadline = Deadline(self._timeout)
        if self._socket is not None and not self._socket.is_idle():
            self.close()
        can_repeat = self._may_repeat and self._connection is not None
        try:
            return self._exchange(method, target, body, headers, deadline)
        except TimeoutError:
            raise
        except OSError:
            if not can_repeat:
                raise
        return self._exchange(method, target, body, headers, deadline)

    def _exchange(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str], deadline: Deadline
    ) -> HttpResponse:
        import http.client

        try:
            connection = self._connected(deadline)
            connection.request(method, target, body or None, {**self._headers, **headers})
            with connection.getresponse() as response:
                result = _read(response, self._max_bytes)
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"no complete response in {self._timeout:g} s") from None
            if isinstance(error, http.client.HTTPException) and not isinstance(error, OSError):
                raise OSError(f"{type(error).__name__}: {error}") from None
            raise
        if connection.sock is None:  # closed after `Connection: close`
            self.close()
        return result

    def _connected(self, deadline: Deadline) -> http.client.HTTPConnection:
        """Return the open connection, or a new one, with this deadline."""
        import http.client

        if self._connection is None or self._socket is None:
            self._socket = _TimedSocket(self._open(deadline), deadline)
            self._connection = http.client.HTTPConnection(self._host, self._port)
            self._connection.auto_open = 0
            self._connection.sock = self._socket
        self._socket.deadline = deadline
        return self._connection

    def _open(self, deadline: Deadline) -> socket.socket:
        is_encrypted = self._base.scheme == "https"
        proxy = _proxy_for(_authority(self._base)) if is_encrypted and self._use_proxy else None
        if proxy is None:
            sock = _open_socket(self._host, self._port, deadline)
        else:
            sock = _open_tunnel(proxy, self._host, self._port, deadline)
        return self._encrypted(sock, deadline) if is_encrypted else sock

    def _encrypted(self, sock: socket.socket, deadline: Deadline) -> ssl.SSLSocket:
        import ssl

        try:
            if self._tls is None:
                self._tls = ssl.create_default_context()
            sock.settimeout(_seconds_left(deadline))
            return self._tls.wrap_socket(sock, server_hostname=self._host)
        except BaseException:
            sock.close()
            raise


def _authority(url: SplitResult) -> str:
    """Return host and port as in the URL."""
    return url.netloc.rpartition("@")[2]


def _read(response: http.client.HTTPResponse, max_bytes: int) -> HttpResponse:
    headers = {name.lower(): value for name, value in response.getheaders()}
    body = response.read(max_bytes + 1)
    if len(body) > max_bytes:
        raise OSError(f"the response is larger than {max_bytes} bytes")
    if response.length:  # `http.client` raises for missing bytes of chunked bodies only
        raise ConnectionError(f"the response ended {response.length} bytes before its Content-Length")
    return HttpResponse(response.status, headers, body)


# -- Sockets with a deadline -------------------------------------------------------------------------------


def _seconds_left(deadline: Deadline) -> float:
    seconds = deadline.remaining
    if not seconds:
        raise TimeoutError
    return seconds


def _open_socket(host: str, port: int, deadline: Deadline) -> socket.socket:
    error = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_seconds_left(deadline))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as problem:
            sock.close()
            error = problem
        else:
            return sock
    raise error


class _TimedSocket:
    """Subset of the socket interface used by `http.client`, with one deadline for all calls."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self.deadline = deadline

    def sendall(self, data: bytes) -> None:
        unsent = memoryview(data)
        while unsent:
            self.apply_deadline()
            unsent = unsent[self._sock.send(unsent) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self, self._sock.makefile("rb", buffering=0)))

    def apply_deadline(self) -> None:
        self._sock.settimeout(_seconds_left(self.deadline))

    def is_idle(self) -> bool:
        """True if neither data nor a close has arrived since the last response."""
        self._sock.settimeout(0)
        try:
            socket.socket.recv(self._sock, 1, socket.MSG_PEEK)  # bypasses TLS
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        self._sock.close()


class _TimedReader(io.RawIOBase):
    def __init__(self, sock: _TimedSocket, raw: io.RawIOBase) -> None:
        self._sock = sock
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        self._sock.apply_deadline()
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


# -- Proxies -----------------------------------------------------------------------------------------------


def _proxy_for(authority: str) -> SplitResult | None:
    """Return the https proxy of the environment, or None if the host is exempt (no_proxy)."""
    import urllib.request

    proxy = urllib.request.getproxies().get("https")
    if not proxy or urllib.request.proxy_bypass(authority):
        return None
    return urlsplit(proxy if "://" in proxy else f"//{proxy}")


def _open_tunnel(proxy: SplitResult, host: str, port: int, deadline: Deadline) -> socket.socket:
    import http.client

    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if proxy.username is not None:
        login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(login.encode()).decode()}")
    sock = _open_socket(proxy.hostname or "", proxy.port or _PROXY_PORT, deadline)
    try:
        timed = _TimedSocket(sock, deadline)
        timed.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        with http.client.HTTPResponse(timed, method="CONNECT") as response:  # type: ignore[arg-type]  # only reads
            response.begin()
            if response.status != 200:
                raise OSError(f"the proxy rejects the connection: HTTP status {response.status}")
    except BaseException:
        sock.close()
        raise
    return sock
