"""SCRAM (RFC 5802), client side.

Names and passwords are not normalised. RFC 5802 requires SASLprep, but Kafka skips it, and a normalising
client would derive different keys.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Generator

from barnabas.client.errors import AuthenticationError
from barnabas.security.authn import (
    MIN_ITERATIONS,
    ScramMechanism,
    client_key,
    salted_password,
    server_key,
    stored_key,
)

# Yields client messages and receives the broker's. The generator returns when authentication succeeded.
Exchange = Generator[bytes, bytes, None]

MAX_ITERATIONS = 1_000_000  # half a second of work; Kafka's brokers allow 16,384
_WITHOUT_CHANNEL_BINDING = "n,,"
_MECHANISMS = {mechanism.hash_name: mechanism for mechanism in ScramMechanism}


def scram(hash_name: str, username: str, password: str, nonce: str | None = None) -> Exchange:
    """The client's side of an exchange, with `sha256` or `sha512`."""
    mechanism = _MECHANISMS[hash_name]
    our_nonce = nonce or secrets.token_urlsafe(24)
    first = f"n={_escaped(username)},r={our_nonce}"
    server_first = yield f"{_WITHOUT_CHANNEL_BINDING}{first}".encode()
    response = _attributes(server_first)
    nonces, salt, iterations = _challenge(response, our_nonce)
    salted = salted_password(mechanism, password, salt, iterations)
    header = base64.b64encode(_WITHOUT_CHANNEL_BINDING.encode()).decode()
    last = f"c={header},r={nonces}"
    covered = f"{first},{server_first.decode()},{last}".encode()
    server_final = yield f"{last},p={_proof(mechanism, salted, covered)}".encode()
    _verify(_attributes(server_final), mechanism, salted, covered)


def _challenge(response: dict[str, str], our_nonce: str) -> tuple[str, bytes, int]:
    if "m" in response:
        raise AuthenticationError("the broker requires an unknown SCRAM extension")
    nonces, iterations = response.get("r", ""), response.get("i", "")
    if not nonces.startswith(our_nonce) or nonces == our_nonce:
        raise AuthenticationError("the broker's SCRAM response belongs to another exchange (wrong nonce)")
    if not iterations.isdecimal() or not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
        raise AuthenticationError(
            f"the broker requires {iterations[:20]!r} hash iterations; "
            f"only {MIN_ITERATIONS} to {MAX_ITERATIONS} are reasonable"
        )
    return nonces, _decoded(response.get("s", "")), int(iterations)


def _proof(mechanism: ScramMechanism, salted: bytes, covered: bytes) -> str:
    key = client_key(mechanism, salted)
    signature = hmac.digest(stored_key(mechanism, key), covered, mechanism.hash_name)
    proof = bytes(ours ^ b for ours, b in zip(key, signature, strict=True))
    return base64.b64encode(proof).decode()


def _verify(response: dict[str, str], mechanism: ScramMechanism, salted: bytes, covered: bytes) -> None:
    if "e" in response:
        raise AuthenticationError(f"the broker rejected the SCRAM exchange: {response['e'][:100]}")
    expected = hmac.digest(server_key(mechanism, salted), covered, mechanism.hash_name)
    if not hmac.compare_digest(_decoded(response.get("v", "")), expected):
        raise AuthenticationError(
            "the broker cannot prove that it knows the password (wrong SCRAM signature)"
        )


def _attributes(message: bytes) -> dict[str, str]:
    """Attributes of `r=...,s=...`, by letter."""
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise AuthenticationError("the broker's SCRAM response is not valid UTF-8") from None
    return {name: value for name, equals, value in (part.partition("=") for part in parts) if equals}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationError("the broker's SCRAM response is not valid base64") from None


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")
