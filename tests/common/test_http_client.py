"""Requests to real HTTP servers on this machine, some of which misbehave."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from barnabas.common.http_client import HttpError, HttpSession, fetch
from tests.support.certificates import Authority

TIMEOUT = 60.0
Respond = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """`requests` are method, path, body and the client's port."""

    def __init__(self, respond: Respond, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[tuple[str, str, bytes, int]] = []
        self.headers: list[dict[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.requests.append((self.command, self.path, body, self.client_address[1]))
                server.headers.append(dict(self.headers))
                respond(self)

            do_POST = do_PUT = do_CONNECT = do_GET  # noqa: N815  (http.server's names)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self._server.server_port}"

    @property
    def ports(self) -> list[int]:
        return [port for *_, port in self.requests]


@contextmanager
def serving(respond: Respond, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    server = Server(respond, tls)
    thread = threading.Thread(target=server._server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server._server.shutdown()
        thread.join()
        server._server.server_close()


def send(
    request: BaseHTTPRequestHandler, status: int = 200, body: bytes = b"ok", missing: int = 0, **headers: str
) -> None:
    request.send_response(status)
    for name, value in {"Content-Length": str(len(body) + missing), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body)


@contextmanager
def certificate(folder: Path) -> Iterator[tuple[ssl.SSLContext, ssl.SSLContext]]:
    """TLS contexts of a server on 127.0.0.1, and of clients that trust it."""
    authority = Authority()
    signed = authority.sign("server", "127.0.0.1")
    (folder / "server.pem").write_text(signed.certificate_pem + signed.key_pem())
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.pem")
    yield server, ssl.create_default_context(cadata=authority.pem)


def test_a_request_carries_method_path_body_and_headers() -> None:
    with serving(lambda request: send(request, 201, b"made", ETag="7")) as server:
        headers = {"Content-Type": "text/plain"}
        response = fetch(
            f"{server.url}/a/b?c=d&e", method="PUT", body=b"data", headers=headers, timeout=TIMEOUT
        )
    assert (response.status, response.body, response.headers["etag"]) == (201, b"made", "7")
    assert [request[:3] for request in server.requests] == [("PUT", "/a/b?c=d&e", b"data")]
    assert server.headers[0]["Content-Type"] == "text/plain"
    assert server.headers[0]["Host"] == server.url.removeprefix("http://")


def test_a_url_without_a_path_asks_for_the_root() -> None:
    with serving(send) as server:
        fetch(server.url, timeout=TIMEOUT)
        fetch(f"{server.url}?a=b", timeout=TIMEOUT)
    assert [path for _, path, *_ in server.requests] == ["/", "/?a=b"]


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://host/", "host:80/path", "http://", "", "http://host:port/"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"not a valid HTTP URL|Port could not be cast"):
        fetch(url, timeout=TIMEOUT)


def test_any_status_is_a_response_until_the_caller_checks_it() -> None:
    with serving(lambda request: send(request, 404, b"no such thing")) as server:
        response = fetch(server.url, timeout=TIMEOUT)
    with pytest.raises(HttpError, match="HTTP status 404") as refused:
        response.raise_for_status()
    assert (refused.value.status, refused.value.body) == (404, b"no such thing")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with serving(send) as other, serving(lambda request: send(request, status, Location=other.url)) as server:
        response = fetch(server.url, timeout=TIMEOUT)
        with pytest.raises(HttpError, match=str(status)):
            response.raise_for_status()
    assert (response.status, response.headers["location"], other.requests) == (status, other.url, [])


def dripping(piece: bytes, ended: threading.Event) -> Respond:
    def respond(request: BaseHTTPRequestHandler) -> None:
        request.close_connection = True
        with contextlib.suppress(OSError):
            while not ended.wait(0.02):
                request.wfile.write(piece)

    return respond


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [(HEAD, b" "), (b"HTTP/1.1 200 OK\r\n", b"a"), (b"", b"H")],
    ids=["body", "header", "status"],
)
def test_a_server_that_drips_bytes_does_not_extend_the_deadline(beginning: bytes, piece: bytes) -> None:
    ended = threading.Event()
    drip = dripping(piece, ended)

    def respond(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(beginning)
        drip(request)

    with serving(respond) as server:
        started = time.monotonic()
        with pytest.raises(TimeoutError, match=r"no complete response in 0\.5 s"):
            fetch(server.url, timeout=0.5)
        assert 0.4 < time.monotonic() - started < 30
        ended.set()


def test_a_server_that_reads_too_slowly_does_not_extend_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # accepts nothing
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        with pytest.raises(TimeoutError, match="no complete response"):
            fetch(url, method="POST", body=bytes(64 << 20), timeout=0.5)


def test_a_tls_handshake_counts_against_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"https://127.0.0.1:{listening.getsockname()[1]}/"
        with pytest.raises(TimeoutError, match="no complete response"):
            fetch(url, timeout=0.5)


def test_a_body_is_read_up_to_its_bound() -> None:
    with serving(lambda request: send(request, body=bytes(1000))) as server:
        assert len(fetch(server.url, timeout=TIMEOUT, max_bytes=1000).body) == 1000
        with pytest.raises(OSError, match="larger than 999 bytes"):
            fetch(server.url, timeout=TIMEOUT, max_bytes=999)


def chunked(*chunks: bytes) -> Respond:
    def respond(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        for chunk in chunks:
            request.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        request.close_connection = True

    return respond


def test_a_chunked_body_is_read_up_to_its_bound() -> None:
    with serving(chunked(b"abc", b"def", b"")) as server:
        assert fetch(server.url, timeout=TIMEOUT, max_bytes=6).body == b"abcdef"
        with pytest.raises(OSError, match="larger than 5 bytes"):
            fetch(server.url, timeout=TIMEOUT, max_bytes=5)


def cut_off(request: BaseHTTPRequestHandler) -> None:
    send(request, body=b"half", missing=4)
    request.close_connection = True


@pytest.mark.parametrize(
    ("respond", "reason"),
    [(cut_off, "4 bytes before its Content-Length"), (chunked(b"abc"), "IncompleteRead")],
)
def test_half_a_body_is_an_error(respond: Respond, reason: str) -> None:
    with serving(respond) as server, pytest.raises(OSError, match=reason):
        fetch(server.url, timeout=TIMEOUT)


def test_a_server_that_does_not_speak_http_is_an_error() -> None:
    def respond(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"nonsense\r\n\r\n")

    with serving(respond) as server, pytest.raises(OSError, match="BadStatusLine: nonsense"):
        fetch(server.url, timeout=TIMEOUT)


def test_an_unreachable_server_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        fetch(f"http://127.0.0.1:{port}/", timeout=TIMEOUT)


def test_tls_trusts_the_given_certificates_only(tmp_path: Path) -> None:
    with certificate(tmp_path) as (tls, trusting), serving(send, tls) as server:
        assert fetch(server.url, timeout=TIMEOUT, tls=trusting).body == b"ok"
        with pytest.raises(ssl.SSLCertVerificationError):
            fetch(server.url, timeout=TIMEOUT)
    assert len(server.requests) == 1


# -- Sessions ----------------------------------------------------------------------------------------------


def test_a_session_keeps_its_connection_and_its_headers() -> None:
    with (
        serving(send) as server,
        HttpSession(f"{server.url}/base/", timeout=TIMEOUT, headers={"X-Key": "k"}) as session,
    ):
        session.request("GET", "/a")
        session.request("POST", "/b?c=d", b"body", {"X-Other": "o"})
    assert [request[:3] for request in server.requests] == [
        ("GET", "/base/a", b""),
        ("POST", "/base/b?c=d", b"body"),
    ]
    assert len(set(server.ports)) == 1
    assert [headers.get("X-Key") for headers in server.headers] == ["k", "k"]
    assert [headers.get("X-Other") for headers in server.headers] == [None, "o"]


def test_a_tls_session_keeps_its_connection(tmp_path: Path) -> None:
    with (
        certificate(tmp_path) as (tls, trusting),
        serving(send, tls) as server,
        HttpSession(server.url, timeout=TIMEOUT, tls=trusting) as session,
    ):
        assert [session.request("GET", "/").status for _ in range(3)] == [200, 200, 200]
    assert len(set(server.ports)) == 1


def test_a_session_connects_again_after_an_announced_close() -> None:
    with (
        serving(lambda request: send(request, Connection="close")) as server,
        HttpSession(server.url, timeout=TIMEOUT) as session,
    ):
        assert [session.request("GET", "/").status for _ in range(2)] == [200, 200]
    assert len(set(server.ports)) == 2


def test_a_session_notices_that_the_server_closed_its_idle_connection() -> None:
    """A request that was not sent is not repeated, so this holds for requests that must not be sent twice."""

    def respond(request: BaseHTTPRequestHandler) -> None:
        send(request)
        request.wfile.flush()
        request.connection.shutdown(socket.SHUT_RDWR)
        request.close_connection = True

    with serving(respond) as server, HttpSession(server.url, timeout=TIMEOUT) as session:
        for _ in range(3):
            assert session.request("POST", "/", b"once").status == 200
            connected = session._socket
            assert connected is not None
            deadline = time.monotonic() + TIMEOUT
            while connected.is_idle() and time.monotonic() < deadline:
                time.sleep(0.01)
    assert (len(server.requests), len(set(server.ports))) == (3, 3)


def closing_second(request: BaseHTTPRequestHandler) -> None:
    """Responds to the first request of each connection, and closes it during the second."""
    if getattr(request, "has_responded", False):
        request.close_connection = True
        return
    request.has_responded = True  # type: ignore[attr-defined]
    send(request)


@pytest.mark.parametrize("may_repeat", [True, False])
def test_a_connection_lost_during_a_request_is_repeated_only_where_that_is_allowed(may_repeat: bool) -> None:
    with (
        serving(closing_second) as server,
        HttpSession(server.url, timeout=TIMEOUT, may_repeat=may_repeat) as session,
    ):
        session.request("GET", "/1")
        if may_repeat:
            assert session.request("GET", "/2").status == 200
        else:
            with pytest.raises(ConnectionError):
                session.request("GET", "/2")
            assert session.request("GET", "/3").status == 200
    assert [path for _, path, *_ in server.requests] == (
        ["/1", "/2", "/2"] if may_repeat else ["/1", "/2", "/3"]
    )


def test_a_new_connection_that_is_lost_is_not_tried_again() -> None:
    def respond(request: BaseHTTPRequestHandler) -> None:
        request.close_connection = True

    with (
        serving(respond) as server,
        HttpSession(server.url, timeout=TIMEOUT, may_repeat=True) as session,
        pytest.raises(ConnectionError),
    ):
        session.request("GET", "/")
    assert len(server.requests) == 1


# -- Proxies -----------------------------------------------------------------------------------------------


def tunnel(request: BaseHTTPRequestHandler) -> None:
    """Behaviour of a proxy on CONNECT."""
    host, _, port = request.path.rpartition(":")
    request.send_response(200)
    request.end_headers()
    request.wfile.flush()
    request.close_connection = True
    with socket.create_connection((host, int(port))) as target:
        back = threading.Thread(target=copy, args=(target, request.connection))
        back.start()
        copy(request.connection, target)
        back.join()


def copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def test_https_uses_the_proxy_of_the_environment_if_enabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with certificate(tmp_path) as (tls, trusting), serving(send, tls) as server, serving(tunnel) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url.replace("://", "://me:s%40cret@"))
        monkeypatch.setenv("no_proxy", "")
        assert fetch(server.url, timeout=TIMEOUT, tls=trusting, use_proxy=True).body == b"ok"
        assert [request[:2] for request in proxy.requests] == [
            ("CONNECT", server.url.removeprefix("https://"))
        ]
        assert proxy.headers[0]["Proxy-Authorization"] == "Basic bWU6c0BjcmV0"
        assert fetch(server.url, timeout=TIMEOUT, tls=trusting).body == b"ok"
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert fetch(server.url, timeout=TIMEOUT, tls=trusting, use_proxy=True).body == b"ok"
        assert len(proxy.requests) == 1


def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda request: send(request, 407)) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(OSError, match="the proxy rejects the connection: HTTP status 407"):
            fetch("https://127.0.0.1:1/", timeout=TIMEOUT, use_proxy=True)


def test_http_bypasses_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(send) as server, serving(send) as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert fetch(server.url, timeout=TIMEOUT, use_proxy=True).body == b"ok"
    assert (len(server.requests), proxy.requests) == (1, [])
