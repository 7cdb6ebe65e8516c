"""Server side of SCRAM (RFC 5802): both sides prove knowledge of the password without sending it.

    client    n,,n=alice,r=CNONCE[,tokenauth=true]
    broker    r=CNONCE SNONCE,s=SALT,i=ITERATIONS
    client    c=biws,r=CNONCE SNONCE,p=PROOF
    broker    v=SIGNATURE

Unknown names get the same kind of challenge in the same time and are refused only at the end. Replayed messages are
useless because the broker's part of the nonce is new in each exchange. Channel binding is not supported: a client that
requires it is refused, as the RFC demands.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from typing import NamedTuple, NoReturn, Protocol

from barnabas.security.authn.credentials import ScramCredential, ScramMechanism
from barnabas.security.authn.sasl.login import (
    Authenticated,
    AuthenticationFailedError,
    Challenge,
    invalid_credentials,
)
from barnabas.security.authn.scram import stored_key
from barnabas.security.principal import Principal

_NAME = r"([^,\0]+)"  # `unescaped` checks that `=` occurs only in =2C and =3D
_NONCE = r"([\x21-\x2b\x2d-\x7e]{1,512})"
_EXTENSIONS = r"((?:,[A-Za-z]+=[^,\0]+)*)"
# Patterns are compiled, and cached by `re`, with the first login: compilation would be a part of every start.
_FIRST = rf"([ny]|p=[A-Za-z0-9.-]+),(?:a={_NAME})?,(m=[^,]*,)?n={_NAME},r={_NONCE}{_EXTENSIONS}"
_FINAL = rf"(c=([A-Za-z0-9+/=]+),r={_NONCE}{_EXTENSIONS}),p=([A-Za-z0-9+/=]+)"
TOKEN_EXTENSION = "tokenauth"


class ScramIdentity(NamedTuple):
    """Credential of a name. `principal` is None for an unknown name, whose credential is a decoy."""

    credential: ScramCredential
    principal: Principal | None
    expires_ms: int | None = None


class ScramUsers(Protocol):
    def of_user(self, mechanism: ScramMechanism, name: str) -> ScramIdentity: ...

    def of_token(self, mechanism: ScramMechanism, token_id: str) -> ScramIdentity:
        """Look up a delegation token (KIP-48). Slow: must not run on the event loop."""
        ...


class _First(NamedTuple):
    header: str  # gs2-header: channel binding flag and authorization id
    bare: str
    name: str
    nonce: str
    is_token: bool


class ScramExchange:
    def __init__(self, mechanism: ScramMechanism, users: ScramUsers) -> None:
        self._mechanism = mechanism
        self._users = users
        self._first: _First | None = None
        self._known: ScramIdentity
        self._nonce = ""
        self._server_first = ""

    def blocks(self, message: bytes) -> bool:
        return self._first is None and TOKEN_EXTENSION.encode() in message

    def step(self, message: bytes) -> Challenge | Authenticated:
        text = self._text(message)
        if self._first is None:
            return Challenge(self._challenge(text).encode())
        return self._finish(self._first, text)

    def _challenge(self, text: str) -> str:
        first = self._first = self._parse_first(text)
        look_up = self._users.of_token if first.is_token else self._users.of_user
        self._known = look_up(self._mechanism, first.name)
        credential = self._known.credential
        self._nonce = first.nonce + secrets.token_urlsafe(24)
        salt = base64.b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first

    def _parse_first(self, text: str) -> _First:
        match = re.fullmatch(_FIRST, text)
        if match is None:
            self._refuse("the first SCRAM message does not conform to RFC 5802")
        flag, authorization_id, mandatory, name, nonce, extensions = match.groups()
        if flag.startswith("p="):
            self._refuse("the client requires channel binding, which is not supported")
        if mandatory:
            self._refuse("the client requires an unknown SCRAM extension")
        username = unescaped(name)
        if username is None:
            self._refuse("the user name contains = outside of =2C and =3D")
        if authorization_id is not None and unescaped(authorization_id) != username:
            raise AuthenticationFailedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        bare_start = match.start(4) - len("n=")
        is_token = f",{TOKEN_EXTENSION}=true," in f"{extensions},"
        return _First(text[:bare_start], text[bare_start:], username, nonce, is_token)

    def _finish(self, first: _First, text: str) -> Authenticated:
        match = re.fullmatch(_FINAL, text)
        if match is None:
            self._refuse("the last SCRAM message does not conform to RFC 5802")
        without_proof, binding, nonce, _, proof = match.groups()
        if _decoded(binding) != first.header.encode():
            self._refuse("the channel binding data does not match the first message")
        if not hmac.compare_digest(nonce, self._nonce):  # CVE-2024-56128
            self._refuse("the nonce belongs to another exchange")
        covered = f"{first.bare},{self._server_first},{without_proof}".encode()
        is_right = self._is_proof(_decoded(proof), covered)
        principal = self._known.principal
        if principal is None or not is_right:
            self._refuse(f"wrong password, or no {'token' if first.is_token else 'user'} {first.name!r}")
        signature = hmac.digest(self._known.credential.server_key, covered, self._mechanism.hash_name)
        token_id = first.name if first.is_token else None
        return Authenticated(principal, b"v=" + base64.b64encode(signature), self._known.expires_ms, token_id)

    def _is_proof(self, proof: bytes, covered: bytes) -> bool:
        expected = self._known.credential.stored_key
        signature = hmac.digest(expected, covered, self._mechanism.hash_name)
        if len(proof) != len(signature):
            return False
        key = bytes(b ^ a for b, a in zip(proof, signature, strict=True))
        return hmac.compare_digest(stored_key(self._mechanism, key), expected)

    def _text(self, message: bytes) -> str:
        try:
            return message.decode()
        except UnicodeDecodeError:
            self._refuse("a SCRAM message is not valid UTF-8")

    def _refuse(self, detail: str) -> NoReturn:
        raise invalid_credentials(self._mechanism.sasl_name, detail) from None


def unescaped(name: str) -> str | None:
    """Decode a `saslname` of RFC 5802; None if it is invalid."""
    if "=" in name.replace("=2C", ",").replace("=3D", ","):
        return None
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
