"""Fetching tokens from misbehaving endpoints, over real HTTP and HTTPS."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from barnabas.client.errors import AuthenticationError, CannotConnectError
from barnabas.client.security import tokens
from barnabas.client.security.settings import TokenEndpoint
from barnabas.client.security.tokens import fetch_token
from barnabas.common.http_client import MAX_BYTES
from barnabas.security.authn.credentials import Secret
from barnabas.security.endpoints import problem_with
from tests.support.certificates import Authority

Answer = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """An endpoint on this machine, with its requests: method, path, and whether a secret was sent."""

    def __init__(self, answer: Answer, context: ssl.SSLContext | None = None) -> None:
        requests: list[tuple[str, str, bool]] = []

        class Endpoint(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                requests.append((self.command, self.path, "Authorization" in self.headers))
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer(self)

            do_POST = do_GET  # noqa: N815  (http.server's name)

            def log_message(self, *_: object) -> None:
                pass

        self.asked = requests
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.scheme = "http" if context is None else "https"

    def __enter__(self) -> Server:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def endpoint(self, path: str = "/token") -> TokenEndpoint:
        return TokenEndpoint(
            f"{self.scheme}://127.0.0.1:{self._server.server_port}{path}", "me", Secret("hush"), None
        )


def send(request: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    request.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body)


def give_token(request: BaseHTTPRequestHandler) -> None:
    send(request, 200, json.dumps({"access_token": "good", "expires_in": 60}).encode())


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://id.example.org/token", None),
        ("http://127.0.0.1:8080/token", None),
        ("http://[::1]:8080/token", None),
        ("http://localhost/token", None),
        ("http://id.example.org/token", "must be https, or http to this machine"),
        ("http://127.0.0.1.example.org/token", "must be https"),
        ("http://localhost@example.org/token", "must be https"),
        ("file:///etc/passwd", "must not be a file"),
        ("FILE:///etc/passwd", "must not be a file"),
        ("ftp://id.example.org/", "must be an https address"),
        ("data:,x", "must be an https address"),
        ("https:///token", "must be an https address"),
        ("http://[::1", "is not a valid URL"),
        ("", "must be an https address"),
    ],
)
def test_a_token_comes_over_https_or_from_this_machine(url: str, problem: str | None) -> None:
    found = problem_with(url)
    assert (found or "").startswith(problem or "")
    assert (found is None) == (problem is None)


def test_file_is_used_as_token_only_if_its_owner_configures_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("kept fresh by somebody else\n")
    endpoint = TokenEndpoint(file.as_uri(), "", None, None)
    with pytest.raises(AuthenticationError, match="must not be a file"):
        fetch_token(endpoint)
    monkeypatch.setenv("BARNABAS_OAUTHBEARER_ALLOWED_URLS", f"http://elsewhere, {file.as_uri()}")
    assert fetch_token(endpoint).access_token == "kept fresh by somebody else"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed_and_the_secret_is_not_forwarded(status: int) -> None:
    with Server(give_token) as other:
        target = other.endpoint().url
        with Server(lambda request: send(request, status, Location=target)) as server:
            with pytest.raises(AuthenticationError, match=f"redirects .HTTP {status}"):
                fetch_token(server.endpoint())
            assert server.asked == [("POST", "/token", True)]
    assert other.asked == []


def test_an_answer_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte arrives in time, but not all of them."""
    monkeypatch.setattr(tokens, "ENDPOINT_TIMEOUT", 0.5)
    disconnected = threading.Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000000")
        request.end_headers()
        try:
            while not disconnected.wait(0.02):
                request.wfile.write(b" ")
        except OSError:
            pass

    with Server(drip) as server:
        started = time.monotonic()
        with pytest.raises(CannotConnectError, match=r"no complete response in 0\.5 s"):
            fetch_token(server.endpoint())
        assert time.monotonic() - started < 60
        disconnected.set()


def test_a_huge_answer_is_not_read() -> None:
    body = b'{"access_token": "' + b"x" * MAX_BYTES + b'"}'
    with (
        Server(lambda request: send(request, 200, body)) as server,
        pytest.raises(CannotConnectError, match="larger than"),
    ):
        fetch_token(server.endpoint())


def test_garbage_instead_of_http_is_a_typed_error() -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"nonsense\r\n\r\n")

    with (
        Server(answer) as server,
        pytest.raises(CannotConnectError, match="no token"),
    ):
        fetch_token(server.endpoint())


def test_requests_to_this_machine_bypass_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(give_token) as proxy, Server(give_token) as server:
        monkeypatch.setenv("http_proxy", proxy.endpoint("").url)
        assert fetch_token(server.endpoint()).access_token == "good"
    assert (len(server.asked), proxy.asked) == (1, [])


@contextmanager
def https(authority: Authority, folder: Path) -> Iterator[Server]:
    signed = authority.sign("endpoint", "127.0.0.1")
    (folder / "server.pem").write_text(signed.certificate_pem + signed.key_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    with Server(give_token, context) as server:
        yield server


def test_https_is_spoken_with_endpoints_whose_certificate_is_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority()
    (tmp_path / "authority.pem").write_text(authority.pem)
    with https(authority, tmp_path) as server:
        with pytest.raises(CannotConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            fetch_token(server.endpoint())
        assert server.asked == []
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        assert fetch_token(server.endpoint()).access_token == "good"
