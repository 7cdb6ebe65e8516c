"""Authenticators of the console: no login (loopback only), login with roles, or login with Kafka credentials.

Every request passes `check`. The user comes from a session cookie or from an Authorization header: an API token or,
with `kind: kafka`, a name and password or a token that the brokers accept.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from barnabas.common.addresses import is_loopback
from barnabas.common.safe_logging import safe_logger
from barnabas.config.setting import ConfigError
from barnabas.services.console.access.model import LoginKind, LoginSettings
from barnabas.services.console.access.oidc import OidcError, OidcLogin
from barnabas.services.console.access.people import (
    IdentityCodec,
    KafkaPeople,
    People,
    RolePeople,
    UserIdentity,
)
from barnabas.services.console.access.session_store import FILE as SESSIONS_FILE
from barnabas.services.console.access.session_store import SessionStore
from barnabas.services.console.access.sessions import Cookie, Sessions
from barnabas.services.console.errors import (
    BadInputError,
    RefusedError,
    ResourceNotFoundError,
    TooManyError,
    UnauthorizedError,
)
from barnabas.services.console.routes import ConsoleMatch
from barnabas.services.console.settings import ConsoleSettings
from barnabas.services.console.users import (
    AnonymousConsoleUser,
    Authenticator,
    ConsoleUser,
    Head,
    UnauthenticatedUser,
)
from barnabas.web import is_cross_site, is_loopback_host

# -- Limits failed logins, by name and by address ------------------------------------------------------

WINDOW_SECONDS = 300.0
MAX = {
    "both": 10,  # one name from one address
    "name": 50,  # from all addresses: high, so that other clients cannot easily lock a user out
    "address": 100,  # any names; all users behind a proxy share its address
}
MAX_REMEMBERED = 10_000
MAX_NAME = 256

Key = tuple[str, str, str]


@dataclass(slots=True)
class Attempts:
    """Counts failed logins within a time window."""

    window: float = WINDOW_SECONDS
    now: Callable[[], float] = time.monotonic
    _failures: dict[Key, list[float]] = field(default_factory=dict)
    _in_progress: Counter[Key] = field(default_factory=Counter)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def attempt(self, name: str, address: str) -> AsyncIterator[None]:
        """Wraps the check of a credential. Raises TooManyError after too many failures."""
        await self._admit(name, address)
        keys = _keys(name, address)
        self._in_progress.update(keys)
        try:
            yield
            self.succeeded(name, address)
        except (UnauthorizedError, asyncio.CancelledError):
            self.failed(name, address)
            raise
        finally:
            self._in_progress.subtract(keys)
            self._in_progress += Counter()  # drop zero counts
            self._ended.set()
            self._ended = asyncio.Event()

    async def _admit(self, name: str, address: str) -> None:
        while True:
            wait = self.wait(name, address)
            if wait > 0:
                raise TooManyError(f"Too many attempts have failed; try again in {wait:.0f} s")
            if all(
                len(self._recent(key)) + self._in_progress[key] < MAX[key[0]] for key in _keys(name, address)
            ):
                return
            await self._ended.wait()

    def wait(self, name: str, address: str) -> float:
        """Seconds until the next attempt is allowed, or 0. Without a name only the address counts."""
        return max(self._wait(key) for key in _keys(name, address))

    def failed(self, name: str, address: str) -> None:
        for key in _keys(name, address):
            timestamps = [*self._recent(key), self.now()][-MAX[key[0]] :]
            self._failures.pop(key, None)
            self._failures[key] = timestamps
        while len(self._failures) > MAX_REMEMBERED:
            del self._failures[next(iter(self._failures))]

    def succeeded(self, name: str, address: str) -> None:
        """Reset the failures of this name; those of the address stay, as it may be trying other names."""
        self._failures.pop(_keys(name, address)[-1], None)

    def _recent(self, key: Key) -> list[float]:
        start = self.now() - self.window
        return [timestamp for timestamp in self._failures.get(key, ()) if timestamp > start]

    def _wait(self, key: Key) -> float:
        timestamps = self._recent(key)
        return 0.0 if len(timestamps) < MAX[key[0]] else timestamps[0] + self.window - self.now()


def _keys(name: str, address: str) -> list[Key]:
    named = name[:MAX_NAME]
    found: list[Key] = [("address", "", address)]
    return [*found, ("name", named, ""), ("both", named, address)] if named else found


_logger = safe_logger(__name__)

SESSION, PENDING = "barnabas-session", "barnabas-login"
PENDING_SECONDS = 600


class ExposedConsoleError(ConfigError):
    """A console without login must listen on loopback only."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"the console has no login, and every client that reaches {host} could read and change everything: "
            "listen on 127.0.0.1, or give it a `login` in console.yml (barnabas console --config console.yml)"
        )


class LoginAudit(Protocol):
    async def logged_in(self, host: str, name: str, mechanism: str, is_allowed: bool) -> None: ...


def gate_of(settings: ConsoleSettings, audit: LoginAudit) -> Authenticator:
    """Raises ExposedConsoleError for a console without login that does not listen on loopback."""
    login = settings.access.login
    if login.kind is LoginKind.NONE:
        if not is_loopback(settings.listen.host):
            raise ExposedConsoleError(str(settings.listen))
        return LocalAuthenticator()
    people: People = RolePeople(settings) if login.kind is LoginKind.SERVICE else KafkaPeople(settings)
    is_secure = settings.tls is not None or settings.url.startswith("https:")
    if not is_secure and not is_loopback(settings.listen.host):
        _logger.warning(
            "%s can be reached from other machines without https: passwords and sessions can be read on the way. Give "
            "it `tls` in console.yml, or `url: https://...` if a proxy in front of it speaks https.",
            settings.listen,
        )
    store = SessionStore(settings.data / SESSIONS_FILE)
    return LoginGate(login, people, audit, store, is_secure=is_secure)


class LocalAuthenticator:
    """No login. Rejects foreign Host names (DNS rebinding) and forms of other sites."""

    def check(self, head: Head) -> None:
        host = head.headers.get("host", "")
        if not is_loopback_host(host):
            raise RefusedError(
                f"This console is for this machine only, and {host[:100]!r} is another name: use 127.0.0.1"
            )
        check_origin(head)

    async def user(self, head: Head, match: ConsoleMatch) -> ConsoleUser:
        return AnonymousConsoleUser()

    async def close(self) -> None:
        """Holds no resources."""


def check_origin(head: Head) -> None:
    if is_cross_site(head.method, head.headers):
        raise RefusedError("This request was sent by a page of another site; nothing was changed")


class LoginGate:
    def __init__(
        self,
        login: LoginSettings,
        people: People,
        audit: LoginAudit,
        store: SessionStore | None = None,
        *,
        is_secure: bool,
    ) -> None:
        self.login = login
        self.oidc = None if login.oidc is None else OidcLogin(login.oidc)
        self.has_password = bool(login.users) or (login.kind is LoginKind.KAFKA and login.oidc is None)
        codec = IdentityCodec(with_sasl=login.kind is LoginKind.KAFKA)
        self.sessions = Sessions(login.idle, login.absolute, store=store, codec=codec)
        self.attempts = Attempts()
        self.header_attempts = Attempts()
        self.audited = Attempts()
        """Counted separately: a program with an expired token must not block logins from the same proxy."""
        self._people = people
        self._audit = audit
        self._cookie = Cookie(SESSION, is_secure)
        self._pending = Cookie(PENDING, is_secure)

    def check(self, head: Head) -> None:
        check_origin(head)

    async def user(self, head: Head, match: ConsoleMatch) -> ConsoleUser:
        if "authorization" in head.headers:
            return await self._by_header(head, match.parameters.get("cluster"))
        session = self._cookie.value(head.headers)
        identity = self.sessions.find(session) if session else None
        if identity is not None:
            try:
                return await self._people.user(identity, match.parameters.get("cluster"))
            except UnauthorizedError:
                self.sessions.close(session)  # the password has changed, or the token has expired
        if match.route.right.without_login:
            return UnauthenticatedUser()
        raise UnauthorizedError("Log in first")

    async def log_in(self, head: Head, name: str, password: str) -> tuple[str, str]:
        """Returns the header with the new session's cookie. Closes the previous session: ids are never reused."""
        if not self.has_password:
            raise ResourceNotFoundError("Password login is not enabled")
        try:
            async with self.attempts.attempt(name, head.host):
                identity = await self._people.by_password(name, password)
        except UnauthorizedError:
            await self._audit.logged_in(head.host, name, "PASSWORD", False)
            raise
        return await self._opened(head, identity, "PASSWORD", None)

    async def log_out(self, head: Head) -> tuple[str, str]:
        identity = self.sessions.close(self._cookie.value(head.headers))
        if identity is not None:
            await self._people.forget(identity)
        return self._cookie.setting("", 0)

    async def begin_oidc(self, see: str) -> tuple[str, tuple[str, str]]:
        """Returns the provider's URL and the cookie that the browser must send back."""
        begun = await self._provider().begin(see)
        return begun.location, self._pending.setting(begun.cookie, PENDING_SECONDS)

    async def end_oidc(
        self, head: Head, state: str, code: str, issuer: str
    ) -> tuple[str, list[tuple[str, str]]]:
        """Returns the originally requested path and the cookies of the new session."""
        try:
            person, see = await self._provider().finish(
                state, self._pending.value(head.headers), code, issuer
            )
            identity = await self._people.by_provider(person)
        except (OidcError, UnauthorizedError) as error:
            await self._audit_failure(head, "OIDC")
            raise UnauthorizedError(f"You are not logged in: {error}") from None
        cookie = await self._opened(head, identity, "OIDC", person.expires_in if identity.sasl else None)
        return see, [cookie, self._pending.setting("", 0)]

    async def close(self) -> None:
        self.sessions.end()
        await self._people.close()

    def _provider(self) -> OidcLogin:
        if self.oidc is None:
            raise ResourceNotFoundError("Login with an identity provider is not enabled")
        return self.oidc

    async def _by_header(self, head: Head, cluster: str | None) -> ConsoleUser:
        authorization = head.headers["authorization"]
        try:
            if self.login.kind is LoginKind.KAFKA:  # passwords can be guessed, API tokens cannot
                async with self.header_attempts.attempt("", head.host):
                    return await self._people.by_header(authorization, cluster)
            return await self._people.by_header(authorization, cluster)
        except UnauthorizedError:
            await self._audit_failure(head, "TOKEN")
            raise

    async def _audit_failure(self, head: Head, mechanism: str) -> None:
        """Record the failure, up to the limit of attempts, so that the audit log cannot be flooded."""
        if not self.audited.wait("", head.host):
            self.audited.failed("", head.host)
            await self._audit.logged_in(head.host, "", mechanism, False)

    async def _opened(
        self, head: Head, identity: UserIdentity, mechanism: str, within: float | None
    ) -> tuple[str, str]:
        self.sessions.close(self._cookie.value(head.headers))
        await self._audit.logged_in(head.host, identity.name, mechanism, True)
        return self._cookie.setting(self.sessions.open(identity, within))


def inner_path(path: str) -> str:
    """The path to return to after the login. Rejects URLs of other sites (open redirect)."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\"))
    if any(ord(each) < 32 for each in path):
        raise BadInputError("not a valid path", "next")
    return path if is_ours else "/"
