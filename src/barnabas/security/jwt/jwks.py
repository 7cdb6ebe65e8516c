"""Cache of an identity provider's keys, fetched on demand.

Keys are refreshed when they are old, and when a token refers to an unknown key, because the provider may have rotated
them. Made-up key ids cannot trigger more than one fetch every few seconds. While the provider is unreachable, the keys
fetched last stay valid. All calls block and belong on a thread.
"""

from __future__ import annotations

import threading
import urllib.parse
from collections.abc import Callable
from pathlib import Path

from barnabas.common.http_client import fetch
from barnabas.common.retry import Backoff
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.security.authn.credentials import SecuritySettingError
from barnabas.security.endpoints import problem_with
from barnabas.security.jwt.jwk import KeySet, PublicKey, parse_keys

log = rate_limited_logger(__name__)

URL = "sasl.oauthbearer.jwks.endpoint.url"
FETCH_SECONDS = 10.0
_FILE = "file:"


class KeySource:
    """Times are monotonic seconds."""

    def __init__(
        self,
        fetch: Callable[[], bytes],
        where: str,
        refresh_seconds: float,
        backoff: tuple[float, float],
        monotonic: Callable[[], float],
    ) -> None:
        """`backoff`: first and maximum delay between attempts after a failure."""
        self._fetch = fetch
        self._where = where
        self._refresh = refresh_seconds
        self._backoff = Backoff(*backoff, jitter=0)
        self._max_backoff = backoff[1]
        self._now = monotonic
        self._lock = threading.Lock()
        self._keys: KeySet = {}
        self.fetched = float("-inf")
        self._next_try = float("-inf")

    def find(self, key_id: str | None) -> PublicKey | None:
        key = self._look_up(key_id)
        if key is not None and not self.is_old:
            return key
        with self._lock:
            key = self._look_up(key_id)
            if self._may_fetch(is_unknown=key is None):
                self.renew()
        return self._look_up(key_id)

    def renew_if_old(self) -> None:
        """Fetch the keys if they are due, independent of any token."""
        with self._lock:
            if self._may_fetch():
                self.renew()

    def _may_fetch(self, *, is_unknown: bool = False) -> bool:
        """True if a fetch is due. With `is_unknown`, for an unknown key id, also some time after the last fetch."""
        now = self._now()
        if not self.is_old and not (is_unknown and now >= self.fetched + self._max_backoff):
            return False
        return now >= self._next_try

    @property
    def is_old(self) -> bool:
        return self._now() >= self.fetched + self._refresh

    def holds(self, key: PublicKey) -> bool:
        """False once the provider has withdrawn the key; True before its keys were fetched."""
        return not self._keys or key in self._keys.values()

    def _look_up(self, key_id: str | None) -> PublicKey | None:
        keys = self._keys
        if key_id is None:
            return next(iter(keys.values())) if len(keys) == 1 else None
        return keys.get(key_id)

    def renew(self) -> None:
        """Fetch the keys; on failure the previous ones are kept."""
        try:
            self._keys = parse_keys(self._fetch())
        except (OSError, ValueError) as error:
            self._next_try = self._now() + self._backoff.next_delay()
            log.warning("Could not fetch the keys of %s: %s", self._where, error)
        else:
            self.fetched = self._next_try = self._now()
            self._backoff.reset()


def key_source(
    url: str, refresh_seconds: float, backoff: tuple[float, float], monotonic: Callable[[], float]
) -> KeySource:
    """Return the source of keys at a URL; SecuritySettingError if the URL is not allowed or the file is invalid."""
    if url.startswith(_FILE):
        path = Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path))
        _check_file(path)
        return KeySource(path.read_bytes, url, refresh_seconds, backoff, monotonic)
    problem = problem_with(url)
    if problem is not None:
        raise SecuritySettingError(URL, problem)
    return KeySource(lambda: _fetch(url), url, refresh_seconds, backoff, monotonic)


def _fetch(url: str) -> bytes:
    headers = {"Accept": "application/json"}
    return fetch(url, headers=headers, timeout=FETCH_SECONDS, use_proxy=True).raise_for_status().body


def _check_file(path: Path) -> None:
    try:
        parse_keys(path.read_bytes())
    except OSError as error:
        raise SecuritySettingError(URL, f"names {path}, which cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SecuritySettingError(URL, f"names {path}, which cannot be used: {error}") from None
