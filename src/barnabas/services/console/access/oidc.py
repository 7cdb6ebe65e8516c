"""Login with an OpenID provider: authorization code with PKCE (RFC 7636), state and nonce.

    browser -> /login/oidc            a state, a nonce and a verifier are derived from a secret in a sealed cookie
    browser -> the provider           authenticates the user
    browser -> /login/oidc/callback   the state must be the cookie's; the code is exchanged for tokens

A login in progress is stored only in the browser's cookie, sealed with a key of this process, so any number of
concurrent logins stay valid for their ten minutes. Requests to the provider run in a thread.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import msgspec

from barnabas.common.http_client import NO_HEADERS, fetch
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.security import problem_with
from barnabas.security.authn import Secret, SecuritySettingError
from barnabas.security.jwt import (
    InvalidTokenError,
    JwtRules,
    KeySource,
    VerifiedToken,
    check_token,
    key_source,
)
from barnabas.services.console.access.model import Oidc

T = TypeVar("T")

log = rate_limited_logger(__name__)

ASK_SECONDS = 10.0
PENDING_SECONDS = 600.0
MAX_SEE = 2000
"""Maximum length of the return path: browsers limit cookies to 4 KB."""
MAX_USED = 10_000
DISCOVERY_SECONDS = 3600.0
KEYS_SECONDS = 3600.0
KEYS_BACKOFF = (0.1, 10.0)


class OidcError(Exception):
    """The login failed; the message gives the reason and contains no secrets."""


class Begun(NamedTuple):
    """The provider's URL and the cookie that the browser must send back."""

    location: str
    cookie: str


class Person(NamedTuple):
    name: str
    groups: tuple[str, ...]
    access_token: Secret
    expires_in: float | None


class _Provider(msgspec.Struct):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str


class _Answer(msgspec.Struct):
    id_token: str = ""
    access_token: str = ""
    expires_in: float | None = None


class _Pending(NamedTuple):
    """A login in progress. State, nonce and verifier cannot be computed from the cookie without the key."""

    secret: str
    see: str
    until: float
    key: bytes

    def derived(self, purpose: str) -> str:
        return _base64(hmac.digest(self.key, f"{purpose} {self.secret}".encode(), "sha256"))

    @property
    def state(self) -> str:
        return self.derived("state")

    @property
    def nonce(self) -> str:
        return self.derived("nonce")

    @property
    def verifier(self) -> str:
        return self.derived("verifier")

    def sealed(self) -> str:
        data = msgspec.json.encode((self.secret, self.see, self.until))
        return f"{_base64(data)}.{_base64(hmac.digest(self.key, b'cookie ' + data, 'sha256'))}"

    @classmethod
    def opened(cls, cookie: str, key: bytes) -> _Pending | None:
        """None for a cookie that was not sealed with this key."""
        text, _, seal = cookie.partition(".")
        try:
            data = base64.urlsafe_b64decode(f"{text}==")
            if not hmac.compare_digest(seal, _base64(hmac.digest(key, b"cookie " + data, "sha256"))):
                return None
        except (ValueError, TypeError):  # not base64, or not ASCII
            return None
        return cls(*msgspec.json.decode(data, type=tuple[str, str, float]), key)


@dataclass(slots=True)
class OidcLogin:
    settings: Oidc
    now: Callable[[], float] = time.monotonic
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _used: dict[str, None] = field(default_factory=dict)
    """States of completed logins, newest last."""
    _provider: _Provider | None = None
    _found: float = 0.0
    _keys: KeySource | None = None

    async def begin(self, see: str) -> Begun:
        """`see` is the originally requested path."""
        provider = await asyncio.to_thread(self._discovered)
        until = self.now() + PENDING_SECONDS
        pending = _Pending(secrets.token_urlsafe(32), see if len(see) <= MAX_SEE else "/", until, self._key)
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.redirect,
            "scope": " ".join(self.settings.scopes),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": _challenge(pending.verifier),
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in provider.authorization_endpoint else "?"
        return Begun(
            f"{provider.authorization_endpoint}{joint}{urllib.parse.urlencode(query)}", pending.sealed()
        )

    async def finish(self, state: str, cookie: str, code: str, issuer: str) -> tuple[Person, str]:
        """Returns the person and the path to return to. A state is valid once, for the browser that began the login."""
        pending = _Pending.opened(cookie, self._key)
        if pending is None or self.now() >= pending.until or state in self._used:
            raise OidcError("this login was not begun here, or too long ago; begin again")
        if not hmac.compare_digest(state.encode("utf-8", "surrogateescape"), pending.state.encode()):
            raise OidcError("this login was begun by another browser; begin again")
        self._use(state)
        if issuer and issuer != self.settings.issuer:
            raise OidcError("the answer comes from another identity provider")  # RFC 9207
        if not code:
            raise OidcError("the identity provider denied the login")
        return await asyncio.to_thread(self._person, code, pending), pending.see

    def _person(self, code: str, pending: _Pending) -> Person:
        answer = self._exchanged(code, pending.verifier)
        token = self._checked(answer.id_token)
        nonce = token.claims.get("nonce")
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), pending.nonce.encode()):
            raise OidcError("the identity provider's token is of another login (nonce)")
        groups = token.claims.get(self.settings.groups_claim)
        named = [each for each in groups if isinstance(each, str)] if isinstance(groups, list) else []
        return Person(token.subject, tuple(named), Secret(answer.access_token), answer.expires_in)

    def _checked(self, text: str) -> VerifiedToken:
        rules = JwtRules(
            self.settings.issuer,
            frozenset({self.settings.client_id}),
            subject_claim=self.settings.name_claim,
        )
        self._discovered()
        assert self._keys is not None
        try:
            token = check_token(text, self._keys, rules, time.time())
        except InvalidTokenError as error:
            raise OidcError(f"the identity provider's token cannot be used: {error}") from None
        azp = token.claims.get("azp")
        if azp is not None and azp != self.settings.client_id:
            raise OidcError("the identity provider's token is for another client (azp)")
        return token

    def _exchanged(self, code: str, verifier: str) -> _Answer:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.settings.redirect,
            "client_id": self.settings.client_id,
            "code_verifier": verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        secret = self.settings.client_secret
        if secret is not None:
            headers["Authorization"] = f"Basic {_basic(self.settings.client_id, secret.text)}"
        body = urllib.parse.urlencode(form).encode()
        return _ask(self._discovered().token_endpoint, _Answer, "POST", body, headers)

    def _discovered(self) -> _Provider:
        """Discovery document of the provider; cached for an hour, longer while the provider is unreachable."""
        if self._provider is not None and self.now() < self._found + DISCOVERY_SECONDS:
            return self._provider
        issuer = self.settings.issuer
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            provider = _ask(url, _Provider)
            _check(provider, issuer)
        except OidcError:
            if self._provider is None:
                raise
            return self._provider
        if self._provider is None or provider.jwks_uri != self._provider.jwks_uri:
            self._keys = _key_source(provider.jwks_uri)
        self._provider, self._found = provider, self.now()
        return provider

    def _use(self, state: str) -> None:
        """Mark a state as used: each is valid once."""
        while len(self._used) >= MAX_USED:
            del self._used[next(iter(self._used))]
        self._used[state] = None


def _check(provider: _Provider, issuer: str) -> None:
    if provider.issuer != issuer:
        raise OidcError("the identity provider calls itself otherwise than `issuer` in console.yml")
    for url in (provider.authorization_endpoint, provider.token_endpoint, provider.jwks_uri):
        problem = problem_with(url)
        if problem is not None:
            raise OidcError(f"an address of the identity provider {problem}")


def _key_source(url: str) -> KeySource:
    try:
        return key_source(url, KEYS_SECONDS, KEYS_BACKOFF, time.monotonic)
    except SecuritySettingError as error:
        raise OidcError(str(error)) from None


def _ask(
    url: str, kind: type[T], method: str = "GET", body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
) -> T:
    headers = {"Accept": "application/json", **headers}
    try:
        response = fetch(
            url, method=method, body=body, headers=headers, timeout=ASK_SECONDS, use_proxy=True
        ).raise_for_status()
        return msgspec.json.decode(response.body, type=kind)
    except OSError as error:
        log.warning("The identity provider cannot be asked: %s", error)
        raise OidcError(
            "the identity provider cannot be asked, or refuses; the console's log says more"
        ) from None
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        raise OidcError("the identity provider's answer cannot be read") from None


def _challenge(verifier: str) -> str:
    return _base64(hashlib.sha256(verifier.encode()).digest())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _basic(name: str, secret: str) -> str:
    """HTTP Basic credentials; both parts are form-encoded first (RFC 6749, 2.3.1)."""
    pair = f"{urllib.parse.quote_plus(name)}:{urllib.parse.quote_plus(secret)}"
    return base64.b64encode(pair.encode()).decode()
