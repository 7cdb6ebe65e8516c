"""SASL's mechanisms as exchanges without I/O. Kafka's broker sends the reason of a refusal by itself."""

from __future__ import annotations

import msgspec

from barnabas.client.errors import AuthenticationError
from barnabas.client.security.scram import Exchange, scram
from barnabas.client.security.settings import Mechanism, Sasl

_SEPARATOR = "\x01"


def exchange_of(sasl: Sasl, token: str | None = None) -> Exchange:
    """A new exchange; only OAUTHBEARER needs a token."""
    if sasl.mechanism is Mechanism.PLAIN:
        return plain(sasl.username, sasl.password.text)
    if sasl.mechanism is Mechanism.OAUTHBEARER:
        return oauthbearer(token or "", sasl.extensions)
    hash_name = "sha256" if sasl.mechanism is Mechanism.SCRAM_SHA_256 else "sha512"
    return scram(hash_name, sasl.username, sasl.password.text)


def plain(username: str, password: str) -> Exchange:
    """RFC 4616: the broker reads the password, so this belongs inside TLS."""
    yield f"\0{username}\0{password}".encode()


def oauthbearer(token: str, extensions: tuple[tuple[str, str], ...] = ()) -> Exchange:
    """RFC 7628. A refusal comes as a challenge in JSON, and only after an empty answer to it as an error."""
    parts = ["n,,", f"auth=Bearer {token}", *(f"{name}={value}" for name, value in extensions)]
    refusal = yield (_SEPARATOR.join(parts) + _SEPARATOR * 2).encode()
    if refusal:
        yield _SEPARATOR.encode()
        raise AuthenticationError(f"the broker refuses the token: {_status(refusal)}")


def _status(refusal: bytes) -> str:
    try:
        found = msgspec.json.decode(refusal, type=dict[str, str])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return "it does not say why"
    return found.get("status", "it does not say why")
