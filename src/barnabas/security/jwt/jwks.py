"""Keys of an identity provider: JSON Web Keys (RFC 7517), their signatures (RFC 7518), and a cache fetched on demand.

Keys are refreshed when they are old, and when a token refers to an unknown key, because the provider may have rotated
them. Made-up key ids cannot trigger more than one fetch every few seconds. While the provider is unreachable, the keys
fetched last stay valid. All calls block and belong on a thread.
"""

from __future__ import annotations

import base64
import binascii
import threading
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from barnabas.common.http_client import fetch
from barnabas.common.retry import Backoff
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.security.authn.credentials import SecuritySettingError
from barnabas.security.endpoints import problem_with

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey


# -- JSON Web Keys -------------------------------------------------------------------------------------

MIN_RSA_BITS = 2048  # RFC 7518, 3.3
MAX_KEYS = 100

# algorithm -> key type, curve, hash
ALGORITHMS = {
    "RS256": ("RSA", "", "SHA256"), "RS384": ("RSA", "", "SHA384"), "RS512": ("RSA", "", "SHA512"),
    "PS256": ("RSA", "", "SHA256"), "PS384": ("RSA", "", "SHA384"), "PS512": ("RSA", "", "SHA512"),
    "ES256": ("EC", "P-256", "SHA256"), "ES384": ("EC", "P-384", "SHA384"), "ES512": ("EC", "P-521", "SHA512"),
}  # fmt: skip
_CURVES = {"P-256": "SECP256R1", "P-384": "SECP384R1", "P-521": "SECP521R1"}


class PublicKey(NamedTuple):
    kind: str
    curve: str
    algorithm: str | None
    """The only algorithm it may be used with, if the provider restricts it."""
    key: Any

    def has_signed(self, algorithm: str, message: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes

        kind, curve, hash_name = ALGORITHMS[algorithm]
        if (kind, curve) != (self.kind, self.curve) or self.algorithm not in (None, algorithm):
            return False
        verify = _verify_rsa if kind == "RSA" else _verify_ec
        try:
            verify(self.key, algorithm, message, signature, getattr(hashes, hash_name)())
        except (InvalidSignature, ValueError):
            return False
        return True


def _verify_rsa(key: RSAPublicKey, algorithm: str, message: bytes, signature: bytes, digest: Any) -> None:
    from cryptography.hazmat.primitives.asymmetric import padding

    pss = padding.PSS(padding.MGF1(digest), digest.digest_size)
    key.verify(signature, message, pss if algorithm.startswith("PS") else padding.PKCS1v15(), digest)


def _verify_ec(
    key: EllipticCurvePublicKey, algorithm: str, message: bytes, signature: bytes, digest: Any
) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    size = (key.curve.key_size + 7) // 8
    if len(signature) != 2 * size:
        raise ValueError
    halves = (int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big"))
    key.verify(encode_dss_signature(*halves), message, ec.ECDSA(digest))


class _Jwk(msgspec.Struct):
    kty: str = ""
    kid: str | None = None
    use: str = "sig"
    alg: str | None = None
    n: str = ""
    e: str = ""
    crv: str = ""
    x: str = ""
    y: str = ""


class _Jwks(msgspec.Struct):
    keys: list[msgspec.Raw]


KeySet = dict[str | None, PublicKey]


def parse_keys(data: bytes) -> KeySet:
    """Parse a JWKS: its signing keys by key id; ValueError if there are none. Symmetric keys and unknown key types are
    skipped."""
    try:
        listed = msgspec.json.decode(data, type=_Jwks).keys[:MAX_KEYS]
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise ValueError("not a valid JWKS document") from None
    keys: KeySet = {}
    for raw in listed:
        try:
            jwk = msgspec.json.decode(raw, type=_Jwk)
            key = _MAKERS[jwk.kty](jwk) if jwk.use == "sig" and jwk.kty in _MAKERS else None
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError, binascii.Error):
            continue
        if key is not None:
            keys[jwk.kid] = PublicKey(jwk.kty, jwk.crv if jwk.kty == "EC" else "", jwk.alg, key)
    if not keys:
        raise ValueError("the JWKS contains no usable signing key")
    return keys


def _rsa(jwk: _Jwk) -> Any:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    key = RSAPublicNumbers(_number(jwk.e), _number(jwk.n)).public_key()
    return key if key.key_size >= MIN_RSA_BITS else None


def _ec(jwk: _Jwk) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    if jwk.crv not in _CURVES:
        return None
    curve = getattr(ec, _CURVES[jwk.crv])()
    return ec.EllipticCurvePublicNumbers(_number(jwk.x), _number(jwk.y), curve).public_key()


def _number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")


_MAKERS: dict[str, Callable[[_Jwk], Any]] = {"RSA": _rsa, "EC": _ec}


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
