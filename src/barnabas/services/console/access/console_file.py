"""Reads `console.yml`. Errors name the line and are raised before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from barnabas.client import parse_address, parse_addresses
from barnabas.client.schemas import (
    BASIC_LOGIN,
    BEARER_TOKEN,
    REGISTRY_PREFIX,
    RegistryAccount,
    parse_registry,
)
from barnabas.client.security import parse_security, resolve
from barnabas.common.durations import seconds_of
from barnabas.config.document import DocumentError, DocumentNode, read_document
from barnabas.security import problem_with
from barnabas.security.authn import Secret, SecuritySettingError
from barnabas.security.tls import TlsSettings, https_context, parse_tls
from barnabas.services.console.access import console_schema as words
from barnabas.services.console.access.model import (
    AccessSettings,
    AuditSettings,
    Grant,
    LoginKind,
    LoginSettings,
    MaskRule,
    Oidc,
    Role,
)
from barnabas.services.console.access.passwords import ApiToken, PasswordHash, is_digest
from barnabas.services.console.alarms.catalogue import BY_NAME
from barnabas.services.console.settings import ClusterSettings, ConsoleSettings, default_data
from barnabas.web import WebLimits, parse_networks

T = TypeVar("T")
_FORBIDDEN_IN_NAMES = frozenset("/\\\0")


class ConsoleFileError(DocumentError):
    """The file is not valid; the message begins with the file and the line."""


def read_console_file(path: Path, cluster: ClusterSettings | None = None) -> ConsoleSettings:
    """`cluster` is the default for a file without clusters: from --bootstrap-server, or the local broker."""
    document = read_document(path, ConsoleFileError, needs="clusters")
    return _Reader(document, path.parent).settings(() if cluster is None else (cluster,))


class _Reader:
    """Builds each part with its node, so that errors name the line."""

    def __init__(self, document: DocumentNode, folder: Path) -> None:
        self._document = document
        self._folder = folder
        said = document.value(words.ConsoleWords)
        self._words = self._at("", lambda: _resolved(said, words.ConsoleWords))

    def settings(self, default: tuple[ClusterSettings, ...]) -> ConsoleSettings:
        said = self._words
        clusters = tuple(self._each("clusters", said.clusters, _cluster)) or default
        if not clusters:
            self._document.fail("there are no `clusters`; name at least one.")
        self._at("clusters", lambda: _once([each.name for each in clusters], "cluster"))
        tls = self._at("tls", lambda: _tls(said.tls)) if said.tls else None
        return ConsoleSettings(
            clusters,
            self._at("listen", lambda: parse_address(said.listen)),
            self._folder / said.data if said.data else default_data(),
            said.read_only,
            tls,
            said.url.rstrip("/"),
            self._access([each.name for each in clusters]),
            said.publish_metrics,
            self._at("alarms", lambda: _silenced(said.alarms)),
            self._at("http", lambda: _http(said.http)),
        )

    def _access(self, clusters: list[str]) -> AccessSettings:
        said = self._words
        tokens = self._each("tokens", said.tokens, _token)
        self._at("tokens", lambda: _once([each.name for each in tokens], "token"))
        grants = [*self._each("roles", said.roles, _grant), *map(_grant_of_token, said.tokens)]
        return AccessSettings(
            self._at("login", lambda: _login(said.login, said.url)),
            tuple(grants),
            tuple(self._each("masks", said.masks, _mask)),
            tuple(tokens),
            self._at("audit", lambda: _audit(said.audit, clusters)),
        )

    def _each(self, section: str, said: Iterable[Any], make: Callable[[Any], T]) -> list[T]:
        return [self._at(f"{section}.{index}", partial(make, each)) for index, each in enumerate(said)]

    def _at(self, path: str, make: Callable[[], T]) -> T:
        try:
            return make()
        except (ValueError, SecuritySettingError) as error:
            self._node(path).fail(f"{error}.")

    def _node(self, path: str) -> DocumentNode:
        node = self._document
        for step in filter(None, path.split(".")):
            if step.isdecimal():
                node = node.items[int(step)]
            elif step in node.fields:
                node = node.fields[step][1]
        return node


S = TypeVar("S", bound=msgspec.Struct)


def _resolved(said: S, kind: type[S]) -> S:
    """Resolve all references to environment variables and files."""
    return msgspec.convert(_replaced("it", msgspec.to_builtins(said)), kind)


def _replaced(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return resolve(name, value, trusted=True)
    if isinstance(value, dict):
        return {key: _replaced(key, each) for key, each in value.items()}
    return [_replaced(name, each) for each in value] if isinstance(value, list) else value


def _once(names: list[str], what: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"duplicate {what} name: {name}")


def _silenced(said: words.AlarmWords) -> frozenset[str]:
    unknown = [name for name in said.silence if name not in BY_NAME]
    if unknown:
        raise ValueError(f"unknown alarm {unknown[0]!r}; docs/metrics.md lists the names")
    return frozenset(said.silence)


def _http(said: words.HttpLimitWords) -> WebLimits:
    return WebLimits(
        connections=said.connections,
        incomplete_per_address=said.incomplete_per_address,
        head_seconds=seconds_of(said.head_timeout),
        body_seconds=seconds_of(said.body_timeout),
        body_rate=said.body_rate,
        trusted_proxies=parse_networks(said.trusted_proxies),
    )


def _cluster(said: words.ClusterWords) -> ClusterSettings:
    if not said.name or said.name in (".", "..") or _FORBIDDEN_IN_NAMES & set(said.name):
        raise ValueError(f"not a valid cluster name: {said.name!r}; it must not be empty or contain a slash")
    parse_addresses(said.bootstrap)
    security = parse_security(said.settings, references=True)
    kept = (said.logs, said.logs_hours, said.logs_gib)
    return ClusterSettings(said.name, said.bootstrap, security, _registry(said.schema_registry), *kept)


def _registry(said: words.RegistryWords | None) -> RegistryAccount:
    if said is None:
        return RegistryAccount()
    given = {REGISTRY_PREFIX + name: value for name, value in said.settings.items()}
    if said.user:
        given[REGISTRY_PREFIX + BASIC_LOGIN] = f"{said.user}:{said.password}"
    if said.token:
        given[REGISTRY_PREFIX + BEARER_TOKEN] = said.token
    return parse_registry(given, said.url or None) or RegistryAccount()


def _tls(said: dict[str, str]) -> TlsSettings:
    """Read the files now, so that an error names the line."""
    found = parse_tls(said)
    https_context("the console", found)
    return found


def _login(said: words.LoginWords, url: str) -> LoginSettings:
    kind = LoginKind(said.kind or LoginKind.NONE)
    if kind is LoginKind.SERVICE and not said.users and said.oidc is None:
        raise ValueError("`kind: service` needs `users` or `oidc`")
    if said.users and kind is not LoginKind.SERVICE:
        raise ValueError("`users` are for `kind: service`; with `kind: kafka` brokers know the passwords")
    _once([each.name for each in said.users], "user")
    users = {each.name: PasswordHash.parse(each.password) for each in said.users}
    oidc = None if said.oidc is None else _oidc(said.oidc, url)
    idle, absolute = seconds_of(said.idle), seconds_of(said.absolute)
    return LoginSettings(kind, users, oidc, idle, absolute, said.kind is not None)


def _oidc(said: words.OidcWords, url: str) -> Oidc:
    problem = problem_with(said.issuer)
    if problem is not None:
        raise ValueError(f"`issuer` {problem}")
    if not url:
        raise ValueError(
            "`oidc` needs `url`, the address under which browsers reach the console, at the top of the file"
        )
    if "openid" not in said.scopes:
        raise ValueError("`scopes` must have openid")
    secret = Secret(said.client_secret) if said.client_secret else None
    redirect = f"{url.rstrip('/')}/login/oidc/callback"
    scopes = said.scopes
    return Oidc(said.issuer, said.client_id, redirect, secret, scopes, said.name_claim, said.groups_claim)


def _grant(said: words.RoleWords) -> Grant:
    if not said.users and not said.groups:
        raise ValueError("a role needs `users` or `groups`; `*` is every logged-in user")
    _check_patterns([*said.names, *said.clusters])
    role = Role[said.role.upper()]
    return Grant(role, said.users, said.groups, (), said.clusters, said.names)


def _grant_of_token(said: words.TokenWords) -> Grant:
    role = Role[said.role.upper()]
    return Grant(role, (), (), (said.name,), said.clusters, said.names)


def _token(said: words.TokenWords) -> ApiToken:
    if not is_digest(said.digest):
        raise ValueError(
            "`digest` is not a valid token digest: create token and digest with `barnabas console token`"
        )
    _check_patterns([*said.names, *said.clusters])
    return ApiToken(said.name, said.digest, _moment(said.expires) if said.expires else None)


def _moment(text: str) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"`expires` is a day or a time, as 2027-01-31, not {text!r}") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def _mask(said: words.MaskWords) -> MaskRule:
    if not said.topics:
        raise ValueError("`topics` is empty: name some, or `*`")
    if not (said.fields or said.headers or said.key):
        raise ValueError("a mask hides `fields`, `headers` or the `key: true`; this one hides nothing")
    _check_patterns([*said.topics, *said.clusters])
    for path in said.fields:
        if not all(path.split(".")):
            raise ValueError(f"not a valid field path: {path!r} (example: card.number)")
    return MaskRule(said.topics, said.clusters, said.fields, said.headers, said.key)


def _audit(said: words.AuditWords, clusters: list[str]) -> AuditSettings:
    if said.cluster and said.cluster not in clusters:
        raise ValueError(f"unknown cluster {said.cluster}")
    if said.max_bytes < 1 or said.files < 1:
        raise ValueError("`max_bytes` and `files` are 1 at least")
    return AuditSettings(said.max_bytes, said.files, said.topic, said.cluster or (clusters or [""])[0])


def _check_patterns(names: Iterable[str]) -> None:
    for name in names:
        if not name or "*" in name[:-1]:
            raise ValueError(f"not a valid pattern: {name!r}; write a name, or a prefix followed by `*`")
