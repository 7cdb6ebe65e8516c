"""HTTP requests: any path and head, with valid, wrong or no login; compressed, slow and truncated bodies."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from random import Random

from barnabas.services.console.pages import route_table
from barnabas.services.console.pages.access.api import described
from barnabas.services.registry.api.app import ROUTES
from tests.fuzz.ports.bodies import Bodies
from tests.fuzz.ports.process import Case

CROWD = 1_100  # connections; servers take a thousand
HALF_SENT = 400  # bytes of a body that was announced to be longer
SLOW_PIECES = 20
_VALUES = (
    "s",
    "-1",
    "0",
    "9" * 5000,
    "%00",
    "%ff",
    "..%2f..",
    "a" * 3000,
    "%F0%9F%98%80",
    "latest",
    ":.:s",
    "",
)


class Requests:
    def __init__(self, port: str, source: Random, authorization: str) -> None:
        self._port, self._source, self._authorization = port, source, authorization
        self._bodies = Bodies(source)
        self._api = [(each.method, each.path) for each in described(route_table())]

    def case(self) -> Case:
        method, path, body, media_type = self._request()
        head = self._head(method, path, media_type)
        kind = self._source.random()
        if kind < 0.1:
            return self._false_length(head, body)
        if kind < 0.2 and body:
            return self._slow(head, body)
        if kind < 0.3:
            return self._chunked(head, body)
        coding, sent = self._coded(body)
        return Case(
            f"{method} {path[:80]}{' compressed' if coding else ''}",
            [head + coding + _length(sent) + b"\r\n" + sent],
        )

    def crowd(self) -> Case:
        """Half-sent bodies on more connections than a server takes: others must be served all the same."""
        method, path = {"http": ("POST", "/"), "registry": ("POST", "/subjects/s/versions")}.get(
            self._port, ("POST", "/login")
        )
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
        return Case("a crowd of half-sent bodies", [head.encode() + b"x" * HALF_SENT], False, CROWD)

    # -- parts of a request -------------------------------------------------------------------------

    def _request(self) -> tuple[str, str, bytes, str]:
        kinds: dict[str, Callable[[], tuple[str, str, bytes, str]]] = {
            "registry": self._of_registry,
            "console": self._of_console,
            "http": lambda: ("POST", "/", self._bodies.records(), self._source.choice(_RECORD_TYPES)),
        }
        return kinds.get(self._port, self._of_monitoring)()

    def _of_monitoring(self) -> tuple[str, str, bytes, str]:
        return self._source.choice(("GET", "HEAD", "POST")), self._source.choice(_PAGES), b"", "text/plain"

    def _of_registry(self) -> tuple[str, str, bytes, str]:
        route = self._source.choice([each for each in ROUTES if each.method != "DELETE"])
        path = self._filled(route.path)
        body = b""
        if route.method in ("POST", "PUT"):
            body = self._bodies.setting() if route.method == "PUT" else self._bodies.schema_request()
        return route.method, path, body, "application/vnd.schemaregistry.v1+json"

    def _of_console(self) -> tuple[str, str, bytes, str]:
        if self._source.random() < 0.4:
            return "POST", "/login", self._bodies.form(), "application/x-www-form-urlencoded"
        method, path = self._source.choice(self._api)
        query = f"?{self._source.choice(('q', 'since', 'after'))}={self._source.choice(_VALUES)}"
        body = b"" if method == "GET" else self._bodies.any_json()
        return method, self._filled(path) + query, body, "application/json"

    def _filled(self, path: str) -> str:
        path = path.replace("{cluster}", "default") if self._source.random() < 0.8 else path
        parts = path.split("/")
        return "/".join(self._source.choice(_VALUES) if part.startswith("{") else part for part in parts)

    def _head(self, method: str, path: str, media_type: str) -> bytes:
        lines = [
            f"{method} {path} HTTP/1.1",
            "Host: localhost",
            f"Content-Type: {media_type}",
            "Connection: close",
        ]
        login = self._source.choice(
            (self._authorization, self._authorization, "", "Basic %%%", "Bearer " + "x" * 9000)
        )
        lines += [f"Authorization: {login}"] if login else []
        odd = self._source.random()
        if odd < 0.05:
            lines += [f"X-{number}: {number}" for number in range(self._bodies.size(5000))]
        elif odd < 0.1:
            lines += [f"X-Long: {'x' * self._bodies.size(200_000)}"]
        elif odd < 0.15:
            lines += [f"Idempotency-Key: {'k' * self._bodies.size(10_000)}", "Transfer-Encoding: identity"]
        return "\r\n".join(lines).encode() + b"\r\n"

    # -- how a body is sent -------------------------------------------------------------------------

    def _coded(self, body: bytes) -> tuple[bytes, bytes]:
        """The coding header and the body, which sometimes does not match it."""
        coding = self._source.random()
        if not body or coding < 0.6:
            return b"", body
        if coding < 0.9:
            return b"Content-Encoding: gzip\r\n", gzip.compress(body, 9)
        if coding < 0.95:
            return b"Content-Encoding: deflate\r\n", zlib.compress(body)
        return b"Content-Encoding: gzip\r\n", gzip.compress(body)[: len(body) // 2] or body

    def _slow(self, head: bytes, body: bytes) -> Case:
        coding, sent = self._coded(body)
        step = max(1, len(sent) // SLOW_PIECES)
        pieces = [sent[at : at + step] for at in range(0, len(sent), step)]
        return Case("a slow body", [head + coding + _length(sent) + b"\r\n", *pieces])

    def _chunked(self, head: bytes, body: bytes) -> Case:
        size = self._source.choice((1, 100, 60_000))
        body = body[: 50_000 * size]
        chunks = b"".join(
            b"%x\r\n%b\r\n" % (len(body[at : at + size]), body[at : at + size])
            for at in range(0, len(body), size)
        )
        end = self._source.choice((b"0\r\n\r\n", b"0\r\n\r\n", b"-1\r\n", b"ffffffffffffffff\r\n"))
        name = f"chunks of {size} bytes"
        return Case(name, [head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + end], end == b"0\r\n\r\n")

    def _false_length(self, head: bytes, body: bytes) -> Case:
        length = self._source.choice((b"-1", b"1e9", b"9" * 5000, b"%d" % (len(body) + 1000), b"0", b"1, 2"))
        sent = head + b"Content-Length: " + length + b"\r\n\r\n" + body[:100_000]
        return Case(f"a false length: {length[:20]!r}", [sent], is_answered=False)


def _length(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n" % len(body)


_RECORD_TYPES = ("application/json", "application/x-ndjson", "text/plain", "x" * 2000)
_PAGES = (
    "/metrics",
    "/health",
    "/",
    "/metrics?name=" + "a" * 8000,
    "/%00",
    "/" + "a/" * 3000,
    "*",
    "http://x/metrics",
)
