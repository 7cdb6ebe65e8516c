"""The keys of an identity provider as they are now: fetched when they are needed, and again when they may have changed.

Keys are fetched again when they are old, and when a token names one that is not there: the provider may have changed
them. A client that makes up names of keys cannot have them fetched more often than every few seconds. What was
fetched last counts for as long as the provider cannot be reached. All of it blocks: for threads.
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
        """`backoff`: seconds between attempts that fail, the first delay and the maximum."""
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
        found = self._look_up(key_id)
        if found is not None and not self.is_old:
            return found
        with self._lock:
            found = self._look_up(key_id)
            if self._may_fetch(is_wanted=found is None):
                self.renew()
        return self._look_up(key_id)

    def renew_if_old(self) -> None:
        """Fetch the keys if it is time to, without waiting for a token that needs them."""
        with self._lock:
            if self._may_fetch():
                self.renew()

    def _may_fetch(self, *, is_wanted: bool = False) -> bool:
        """`is_wanted`: a token names a key that is not known, which counts only some time after the last fetch."""
        now = self._now()
        if not self.is_old and not (is_wanted and now >= self.fetched + self._max_backoff):
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
        """Fetch; what was known is kept when that fails."""
        try:
            self._keys = parse_keys(self._fetch())
        except (OSError, ValueError) as error:
            self._next_try = self._now() + self._backoff.next_delay()
            log.warning("The keys of %s cannot be read: %s", self._where, error)
        else:
            self.fetched = self._next_try = self._now()
            self._backoff.reset()


def key_source(
    url: str, refresh_seconds: float, backoff: tuple[float, float], monotonic: Callable[[], float]
) -> KeySource:
    """SecuritySettingError when keys cannot come from there; a file is read at once."""
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
