"""Token sources of OAUTHBEARER: settings, a coroutine of the caller, or a token endpoint."""

from __future__ import annotations

import asyncio
import base64
import time
import urllib.parse
from pathlib import Path

import msgspec

from barnabas.client.errors import AuthenticationError, CannotConnectError
from barnabas.client.security.settings import TokenEndpoint, TokenProvider
from barnabas.common.http_client import HttpError, HttpResponse, fetch
from barnabas.security import problem_with
from barnabas.security.authn import Secret

ENDPOINT_TIMEOUT = 10.0  # seconds; as long as a connection to a broker may take
REFRESH_FACTOR = (
    0.8  # of a token's life, after which a new one is fetched: Kafka's sasl.login.refresh.window.factor
)

Source = Secret | TokenEndpoint | TokenProvider


class _Answer(msgspec.Struct):
    access_token: str
    expires_in: float = 0.0


class TokenSource:
    """Provides valid tokens. Connections of a client share tokens from an endpoint."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known: str | None = None
        self._good_until = 0.0

    async def current(self) -> str:
        if isinstance(self._source, Secret):
            return self._source.text
        if not isinstance(self._source, TokenEndpoint):
            return await self._source()
        if self._known is None or time.monotonic() >= self._good_until:
            answer = await asyncio.to_thread(fetch_token, self._source)
            self._known = answer.access_token
            self._good_until = time.monotonic() + answer.expires_in * REFRESH_FACTOR
        return self._known


def fetch_token(endpoint: TokenEndpoint) -> _Answer:
    """Fetch a token. Blocking: run in a thread."""
    problem = problem_with(endpoint.url)
    if problem is not None:
        raise AuthenticationError(f"cannot fetch a token from {endpoint.url}: the address {problem}")
    if endpoint.url.startswith("file:"):
        return _Answer(_read(endpoint.url))
    try:
        return msgspec.json.decode(_post(endpoint).raise_for_status().body, type=_Answer)
    except HttpError as error:
        _refuse(endpoint, error.status)
        raise CannotConnectError(endpoint.url, f"the token endpoint returned status {error.status}") from None
    except OSError as error:
        raise CannotConnectError(endpoint.url, f"no token: {error}") from None
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise AuthenticationError(f"the response of {endpoint.url} has no access_token") from None


def _refuse(endpoint: TokenEndpoint, status: int) -> None:
    if 300 <= status < 400:
        raise AuthenticationError(
            f"{endpoint.url} redirects (HTTP {status}), but the client secret is not sent to other addresses: "
            "configure the final address"
        )
    if 400 <= status < 500 and status not in (408, 429):  # those two may pass
        raise AuthenticationError(
            f"{endpoint.url} denied a token to {endpoint.client_id!r} (HTTP {status}): check id, secret and scope"
        )


def _post(endpoint: TokenEndpoint) -> HttpResponse:
    """RFC 6749, 4.4: the client's name as HTTP basic authentication, as Kafka's Java client sends it."""
    form = {"grant_type": "client_credentials"}
    if endpoint.scope:
        form["scope"] = endpoint.scope
    secret = endpoint.client_secret.text if endpoint.client_secret else ""
    name = base64.b64encode(f"{endpoint.client_id}:{secret}".encode()).decode()
    headers = {
        "Authorization": f"Basic {name}",
        "Accept": "application/json",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    body = urllib.parse.urlencode(form).encode()
    return fetch(
        endpoint.url, method="POST", body=body, headers=headers, timeout=ENDPOINT_TIMEOUT, use_proxy=True
    )


def _read(url: str) -> str:
    """Read a token file that another program refreshes, such as a Kubernetes service account token."""
    path = Path(urllib.parse.unquote(urllib.parse.urlparse(url).path))
    try:
        return path.read_text().strip()
    except OSError as error:
        raise AuthenticationError(f"the token in {path} cannot be read: {error.strerror}") from None
