"""The console's gate: nobody logs in (loopback), with a role, or as oneself.

Every request passes `check`. Who it is from is said by a cookie with a session, or by an Authorization header: an API
token, or with a login as oneself the name and password, or token, that brokers know.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from typing import Protocol

from barnabas.config.setting import ConfigError
from barnabas.services.console.access.model import Login, LoginKind
from barnabas.services.console.access.oidc import OidcError, OidcLogin
from barnabas.services.console.access.people import Identity, KafkaPeople, People, RolePeople
from barnabas.services.console.access.sessions import Cookie, Sessions
from barnabas.services.console.errors import (
    BadInputError,
    NotFoundError,
    RefusedError,
    TooManyError,
    UnauthorizedError,
)
from barnabas.services.console.visitor import Authenticator, Head
from barnabas.services.console.routes import Match
from barnabas.services.console.settings import ConsoleSettings
from barnabas.services.console.visitor import Anyone, Nobody, Visitor
from barnabas.common.safe_logging import safe_logger
from barnabas.network.exposure import is_loopback


# -- Which requests come from the console's own pages, and which are meant for this console at all -----

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def is_cross_site(method: str, headers: Mapping[str, str]) -> bool:
    """As Go's CrossOriginProtection: by Sec-Fetch-Site, which browsers of the last years send, else by Origin.

    A request with neither comes from no browser, or from one too old for it, and then not from another site.
    """
    if method in SAFE_METHODS:
        return False
    site = headers.get("sec-fetch-site", "")
    if site:
        return site not in ("same-origin", "none")
    origin = headers.get("origin", "")
    return bool(origin) and _host_of(origin) != headers.get("host", "").lower()


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def is_of_this_machine(host: str) -> bool:
    """Is this Host header an address of loopback, or localhost? With any port: it may be forwarded by ssh."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        urlsplit(f"//{host}").port  # noqa: B018  (ValueError if it is no number)
    except ValueError:
        return False
    if name.rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False




# -- How often somebody may fail to log in before nobody is listened to for a while --------------------

WINDOW_SECONDS = 300.0
MOST = {
    "both": 10,  # one name from one address
    "name": 50,  # from all addresses: somebody elsewhere must not lock a person out at once
    "address": 100,  # any names; a proxy is one address for all people behind it
}
MOST_REMEMBERED = 10_000
LONGEST_NAME = 256

Key = tuple[str, str, str]


@dataclass(slots=True)
class Attempts:
    """Counts the failures of a window of time."""

    window: float = WINDOW_SECONDS
    now: Callable[[], float] = time.monotonic
    _failures: dict[Key, list[float]] = field(default_factory=dict)

    def wait(self, name: str, address: str) -> float:
        """Seconds until another attempt is allowed; 0 if it is now. Without a name the address alone counts."""
        return max(self._wait(key) for key in _keys(name, address))

    def failed(self, name: str, address: str) -> None:
        for key in _keys(name, address):
            moments = [*self._recent(key), self.now()][-MOST[key[0]] :]
            self._failures.pop(key, None)
            self._failures[key] = moments
        while len(self._failures) > MOST_REMEMBERED:
            del self._failures[next(iter(self._failures))]

    def succeeded(self, name: str, address: str) -> None:
        """Forgotten is what this person did wrong before; the address may be trying other names."""
        self._failures.pop(_keys(name, address)[-1], None)

    def _recent(self, key: Key) -> list[float]:
        start = self.now() - self.window
        return [moment for moment in self._failures.get(key, ()) if moment > start]

    def _wait(self, key: Key) -> float:
        moments = self._recent(key)
        return 0.0 if len(moments) < MOST[key[0]] else moments[0] + self.window - self.now()


def _keys(name: str, address: str) -> list[Key]:
    named = name[:LONGEST_NAME]
    found: list[Key] = [("address", "", address)]
    return [*found, ("name", named, ""), ("both", named, address)] if named else found



_logger = safe_logger(__name__)

SESSION, PENDING = "barnabas-session", "barnabas-login"
PENDING_SECONDS = 600


class ExposedConsoleError(ConfigError):
    """A console that asks nobody for a name must not be reachable from elsewhere."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"the console asks nobody to log in, and everybody who reaches {host} could read and change everything: "
            "listen on 127.0.0.1, or give it a `login` in console.yml (barnabas console --config console.yml)"
        )


class LoginAudit(Protocol):
    async def logged_in(self, host: str, name: str, mechanism: str, is_allowed: bool) -> None: ...


def gate_of(settings: ConsoleSettings, audit: LoginAudit) -> Authenticator:
    """ExposedConsoleError without a login anywhere but on loopback."""
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
    return LoginGate(login, people, audit, is_secure=is_secure)


class LocalAuthenticator:
    """No login. Names that somebody else points at this machine, and forms of other sites, are refused."""

    def __init__(self) -> None:
        self._anyone = Anyone()

    def check(self, head: Head) -> None:
        host = head.headers.get("host", "")
        if not is_of_this_machine(host):
            raise RefusedError(
                f"This console is for this machine only, and {host[:100]!r} is another name: use 127.0.0.1"
            )
        check_origin(head)

    async def visitor(self, head: Head, match: Match) -> Visitor:
        return self._anyone

    async def close(self) -> None:
        """Nothing is kept."""


def check_origin(head: Head) -> None:
    if is_cross_site(head.method, head.headers):
        raise RefusedError("This request was sent by a page of another site; nothing was changed")


class LoginGate:
    def __init__(self, login: Login, people: People, audit: LoginAudit, *, is_secure: bool) -> None:
        self.login = login
        self.oidc = None if login.oidc is None else OidcLogin(login.oidc)
        self.has_password = bool(login.users) or (login.kind is LoginKind.KAFKA and login.oidc is None)
        self.sessions: Sessions[Identity] = Sessions(login.idle, login.absolute)
        self.attempts = Attempts()
        self.header_attempts = Attempts()
        """By themselves: a program with an old token must not keep people behind the same proxy from logging in."""
        self._people = people
        self._audit = audit
        self._cookie = Cookie(SESSION, is_secure)
        self._pending = Cookie(PENDING, is_secure)

    def check(self, head: Head) -> None:
        check_origin(head)

    async def visitor(self, head: Head, match: Match) -> Visitor:
        if "authorization" in head.headers:
            return await self._by_header(head, match.path.get("cluster"))
        session = self._cookie.value(head.headers)
        who = self.sessions.find(session) if session else None
        if who is not None:
            try:
                return await self._people.visitor(who, match.path.get("cluster"))
            except UnauthorizedError:
                self.sessions.close(session)  # the password has changed, or the token has expired
        if match.route.needs.without_login:
            return Nobody()
        raise UnauthorizedError("Log in first")

    async def log_in(self, head: Head, name: str, password: str) -> tuple[str, str]:
        """The header with the new session's cookie. A session that there was is closed: ids are never kept."""
        if not self.has_password:
            raise NotFoundError("Nobody logs in here with a password")
        _check_attempts(self.attempts, name, head.host)
        try:
            who = await self._people.by_password(name, password)
        except UnauthorizedError:
            await self._failed(self.attempts, head, name, "PASSWORD")
            raise
        self.attempts.succeeded(name, head.host)
        return await self._opened(head, who, "PASSWORD", None)

    async def log_out(self, head: Head) -> tuple[str, str]:
        who = self.sessions.close(self._cookie.value(head.headers))
        if who is not None:
            await self._people.forget(who)
        return self._cookie.setting("", 0)

    async def begin_oidc(self, see: str) -> tuple[str, tuple[str, str]]:
        """Where the browser goes, and the cookie that it must bring back."""
        begun = await self._provider().begin(see)
        return begun.location, self._pending.setting(begun.state, PENDING_SECONDS)

    async def end_oidc(
        self, head: Head, state: str, code: str, issuer: str
    ) -> tuple[str, list[tuple[str, str]]]:
        """Where the person wanted to go, and the cookies of the new session."""
        try:
            person, see = await self._provider().finish(
                state, self._pending.value(head.headers), code, issuer
            )
            who = await self._people.by_provider(person)
        except (OidcError, UnauthorizedError) as error:
            await self._failed(self.header_attempts, head, "", "OIDC")
            raise UnauthorizedError(f"You are not logged in: {error}") from None
        cookie = await self._opened(head, who, "OIDC", person.expires_in if who.sasl else None)
        return see, [cookie, self._pending.setting("", 0)]

    async def close(self) -> None:
        await self._people.close()

    def _provider(self) -> OidcLogin:
        if self.oidc is None:
            raise NotFoundError("Nobody logs in here with an identity provider")
        return self.oidc

    async def _by_header(self, head: Head, cluster: str | None) -> Visitor:
        if self.login.kind is LoginKind.KAFKA:  # passwords can be guessed, tokens of ours cannot
            _check_attempts(self.header_attempts, "", head.host)
        try:
            return await self._people.by_header(head.headers["authorization"], cluster)
        except UnauthorizedError:
            await self._failed(self.header_attempts, head, "", "TOKEN")
            raise

    async def _failed(self, attempts: Attempts, head: Head, name: str, mechanism: str) -> None:
        """Written down until it is too much: nobody floods the audit log with it."""
        if not attempts.wait(name, head.host):
            await self._audit.logged_in(head.host, name, mechanism, False)
        attempts.failed(name, head.host)

    async def _opened(
        self, head: Head, who: Identity, mechanism: str, within: float | None
    ) -> tuple[str, str]:
        self.sessions.close(self._cookie.value(head.headers))
        await self._audit.logged_in(head.host, who.name, mechanism, True)
        return self._cookie.setting(self.sessions.open(who, within))


def _check_attempts(attempts: Attempts, name: str, address: str) -> None:
    wait = attempts.wait(name, address)
    if wait > 0:
        raise TooManyError(f"Too many attempts have failed; try again in {wait:.0f} s")


def inner_path(path: str) -> str:
    """Where to go after the login, if that is a path of ours: nobody is sent to another site."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\"))
    if any(ord(each) < 32 for each in path):
        raise BadInputError("this is no path", "next")
    return path if is_ours else "/"
