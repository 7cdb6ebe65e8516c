"""HTTP to a server that a connector reads from or writes to: one connection, kept open, answers of bounded size."""

from __future__ import annotations

import base64
import contextlib
import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from barnabas.security.authn.credentials import Secret

MAX_ANSWER = 64 << 20


class Reply(NamedTuple):
    status: int
    body: bytes
    retry_after: float | None


class ConnectionLostError(Exception):
    """Whether the request was carried out is not known."""


@dataclass(frozen=True)
class Address:
    url: str
    user: str | None = None
    password: Secret | None = None
    api_key: Secret | None = None
    ca: str | None = None
    timeout: float = 60.0
    token: Secret | None = None
    others: tuple[tuple[str, str], ...] = ()
    """Headers of every request."""
    port: int | None = None
    """Where the URL names none; None: that of the scheme."""
    largest: int = MAX_ANSWER
    """Bytes of an answer."""

    def headers(self) -> dict[str, str]:
        return {**dict(self.others), **self._authorization()}

    def _authorization(self) -> dict[str, str]:
        if self.token is not None:
            return {"Authorization": f"Bearer {self.token.text}"}
        if self.api_key is not None:
            return {"Authorization": f"ApiKey {self.api_key.text}"}
        if self.user is not None and self.password is not None:
            both = base64.b64encode(f"{self.user}:{self.password.text}".encode()).decode()
            return {"Authorization": f"Basic {both}"}
        return {}


class Server:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._parts = urlsplit(address.url)
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: bytes | None = None) -> Reply:
        """ConnectionLostError if no whole answer came."""
        try:
            connection = self._connection or self._connect()
            self._connection = connection
            connection.request(method, self._parts.path.rstrip("/") + path, body, self._headers(body))
            with connection.getresponse() as answer:
                found = answer.read(self._address.largest)
                if len(found) == self._address.largest and answer.read(1):
                    raise OSError(f"an answer of more than {self._address.largest} bytes")
                if answer.length:  # what is missing; http.client does not mind
                    raise http.client.IncompleteRead(found, answer.length)
                return Reply(answer.status, found, _seconds(answer.headers.get("Retry-After")))
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ConnectionLostError(str(error) or type(error).__name__) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _headers(self, body: bytes | None) -> Mapping[str, str]:
        kind = {} if body is None else {"Content-Type": "application/x-ndjson"}
        return {**self._address.headers(), **kind}

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port or self._address.port
        if self._parts.scheme == "https":
            context = ssl.create_default_context(cafile=self._address.ca)
            return http.client.HTTPSConnection(host, port, timeout=self._address.timeout, context=context)
        return http.client.HTTPConnection(host, port, timeout=self._address.timeout)


def _seconds(text: str | None) -> float | None:
    with contextlib.suppress(ValueError):
        return None if text is None else max(0.0, float(text))
    return None
