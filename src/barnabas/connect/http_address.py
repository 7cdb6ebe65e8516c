"""Address and credentials of the HTTP server that a connector reads from or writes to."""

from __future__ import annotations

import base64
import contextlib
import ssl
from dataclasses import dataclass

from barnabas.common.http_client import HttpResponse, HttpSession
from barnabas.security.authn import Secret
from barnabas.spark import PipelineError

MAX_ANSWER = 64 << 20


@dataclass(frozen=True)
class HttpAddress:
    url: str
    user: str | None = None
    password: Secret | None = None
    api_key: Secret | None = None
    ca: str | None = None
    timeout: float = 60.0
    """Seconds per request."""
    token: Secret | None = None
    others: tuple[tuple[str, str], ...] = ()
    """Headers sent with every request."""
    largest: int = MAX_ANSWER
    """Maximum size of a response in bytes."""

    def session(self) -> HttpSession:
        headers = {**dict(self.others), **self._authorization()}
        return HttpSession(
            self.url, timeout=self.timeout, max_bytes=self.largest, headers=headers, tls=self._tls()
        )

    def _tls(self) -> ssl.SSLContext | None:
        """Return a TLS context that trusts the certificates in `ca`; None for the system's."""
        if self.ca is None:
            return None
        try:
            return ssl.create_default_context(cafile=self.ca)
        except OSError as error:
            raise PipelineError(
                f"The certificates of `ca` cannot be read from {self.ca}.", str(error)
            ) from None

    def _authorization(self) -> dict[str, str]:
        if self.token is not None:
            return {"Authorization": f"Bearer {self.token.text}"}
        if self.api_key is not None:
            return {"Authorization": f"ApiKey {self.api_key.text}"}
        if self.user is not None and self.password is not None:
            both = base64.b64encode(f"{self.user}:{self.password.text}".encode()).decode()
            return {"Authorization": f"Basic {both}"}
        return {}


def retry_after(response: HttpResponse) -> float | None:
    """Return the seconds of the Retry-After header, or None."""
    with contextlib.suppress(KeyError, ValueError):
        return max(0.0, float(response.headers["retry-after"]))
    return None
