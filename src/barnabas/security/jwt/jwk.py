"""JSON Web Keys of an identity provider (RFC 7517), and verification of their signatures (RFC 7518)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

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
