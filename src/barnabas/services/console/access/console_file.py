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
        document_words = document.value(words.ConsoleWords)
        self._words = self._at("", lambda: _resolved(document_words, words.ConsoleWords))

    def settings(self, default: tuple[ClusterSettings, ...]) -> ConsoleSettings:
        document_words = self._words
        clusters = tuple(self._each("clusters", document_words.clusters, _cluster)) or default
        if not clusters:
            self._document.fail("there are no `clusters`; name at least one.")
        self._at("clusters", lambda: _once([each.name for each in clusters], "cluster"))
        tls = self._at("tls", lambda: _tls(document_words.tls)) if document_words.tls else None
        return ConsoleSettings(
            clusters,
            self._at("listen", lambda: parse_address(document_words.listen)),
            self._folder / document_words.data if document_words.data else default_data(),
            document_words.read_only,
            tls,
            document_words.url.rstrip("/"),
            self._access([each.name for each in clusters]),
            document_words.publish_metrics,
            self._at("alarms", lambda: _silenced(document_words.alarms)),
            self._at("http", lambda: _http(document_words.http)),
        )

    def _access(self, clusters: list[str]) -> AccessSettings:
        document_words = self._words
        tokens = self._each("tokens", document_words.tokens, _token)
        self._at("tokens", lambda: _once([each.name for each in tokens], "token"))
        grants = [
            *self._each("roles", document_words.roles, _grant),
            *map(_grant_of_token, document_words.tokens),
        ]
        return AccessSettings(
            self._at("login", lambda: _login(document_words.login, document_words.url)),
            tuple(grants),
            tuple(self._each("masks", document_words.masks, _mask)),
            tuple(tokens),
            self._at("audit", lambda: _audit(document_words.audit, clusters)),
        )

    def _each(self, section: str, document_words: Iterable[Any], make: Callable[[Any], T]) -> list[T]:
        return [
            self._at(f"{section}.{index}", partial(make, each)) for index, each in enumerate(document_words)
        ]

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


def _resolved(document_words: S, kind: type[S]) -> S:
    """Resolve all references to environment variables and files."""
    return msgspec.convert(_replaced("it", msgspec.to_builtins(document_words)), kind)


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


def _silenced(document_words: words.AlarmWords) -> frozenset[str]:
    unknown = [name for name in document_words.silence if name not in BY_NAME]
    if unknown:
        raise ValueError(f"unknown alarm {unknown[0]!r}; docs/metrics.md lists the names")
    return frozenset(document_words.silence)


def _http(document_words: words.HttpLimitWords) -> WebLimits:
    return WebLimits(
        connections=document_words.connections,
        incomplete_per_address=document_words.incomplete_per_address,
        head_seconds=seconds_of(document_words.head_timeout),
        body_seconds=seconds_of(document_words.body_timeout),
        body_rate=document_words.body_rate,
        trusted_proxies=parse_networks(document_words.trusted_proxies),
    )


def _cluster(document_words: words.ClusterWords) -> ClusterSettings:
    if (
        not document_words.name
        or document_words.name in (".", "..")
        or _FORBIDDEN_IN_NAMES & set(document_words.name)
    ):
        raise ValueError(
            f"not a valid cluster name: {document_words.name!r}; it must not be empty or contain a slash"
        )
    parse_addresses(document_words.bootstrap)
    security = parse_security(document_words.settings, references=True)
    kept = (document_words.logs, document_words.logs_hours, document_words.logs_gib)
    return ClusterSettings(
        document_words.name,
        document_words.bootstrap,
        security,
        _registry(document_words.schema_registry),
        *kept,
    )


def _registry(document_words: words.RegistryWords | None) -> RegistryAccount:
    if document_words is None:
        return RegistryAccount()
    values = {REGISTRY_PREFIX + name: value for name, value in document_words.settings.items()}
    if document_words.user:
        values[REGISTRY_PREFIX + BASIC_LOGIN] = f"{document_words.user}:{document_words.password}"
    if document_words.token:
        values[REGISTRY_PREFIX + BEARER_TOKEN] = document_words.token
    return parse_registry(values, document_words.url or None) or RegistryAccount()


def _tls(document_words: dict[str, str]) -> TlsSettings:
    """Read the files now, so that an error names the line."""
    found = parse_tls(document_words)
    https_context("the console", found)
    return found


def _login(document_words: words.LoginWords, url: str) -> LoginSettings:
    kind = LoginKind(document_words.kind or LoginKind.NONE)
    if kind is LoginKind.SERVICE and not document_words.users and document_words.oidc is None:
        raise ValueError("`kind: service` needs `users` or `oidc`")
    if document_words.users and kind is not LoginKind.SERVICE:
        raise ValueError("`users` are for `kind: service`; with `kind: kafka` brokers know the passwords")
    _once([each.name for each in document_words.users], "user")
    users = {each.name: PasswordHash.parse(each.password) for each in document_words.users}
    oidc = None if document_words.oidc is None else _oidc(document_words.oidc, url)
    idle, absolute = seconds_of(document_words.idle), seconds_of(document_words.absolute)
    return LoginSettings(kind, users, oidc, idle, absolute, document_words.kind is not None)


def _oidc(document_words: words.OidcWords, url: str) -> Oidc:
    problem = problem_with(document_words.issuer)
    if problem is not None:
        raise ValueError(f"`issuer` {problem}")
    if not url:
        raise ValueError(
            "`oidc` needs `url`, the address under which browsers reach the console, at the top of the file"
        )
    if "openid" not in document_words.scopes:
        raise ValueError("`scopes` must have openid")
    secret = Secret(document_words.client_secret) if document_words.client_secret else None
    redirect = f"{url.rstrip('/')}/login/oidc/callback"
    scopes = document_words.scopes
    return Oidc(
        document_words.issuer,
        document_words.client_id,
        redirect,
        secret,
        scopes,
        document_words.name_claim,
        document_words.groups_claim,
    )


def _grant(document_words: words.RoleWords) -> Grant:
    if not document_words.users and not document_words.groups:
        raise ValueError("a role needs `users` or `groups`; `*` is every logged-in user")
    _check_patterns([*document_words.names, *document_words.clusters])
    role = Role[document_words.role.upper()]
    return Grant(
        role, document_words.users, document_words.groups, (), document_words.clusters, document_words.names
    )


def _grant_of_token(document_words: words.TokenWords) -> Grant:
    role = Role[document_words.role.upper()]
    return Grant(role, (), (), (document_words.name,), document_words.clusters, document_words.names)


def _token(document_words: words.TokenWords) -> ApiToken:
    if not is_digest(document_words.digest):
        raise ValueError(
            "`digest` is not a valid token digest: create token and digest with `barnabas console token`"
        )
    _check_patterns([*document_words.names, *document_words.clusters])
    return ApiToken(
        document_words.name,
        document_words.digest,
        _moment(document_words.expires) if document_words.expires else None,
    )


def _moment(text: str) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"`expires` is a day or a time, as 2027-01-31, not {text!r}") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def _mask(document_words: words.MaskWords) -> MaskRule:
    if not document_words.topics:
        raise ValueError("`topics` is empty: name some, or `*`")
    if not (document_words.fields or document_words.headers or document_words.key):
        raise ValueError("a mask hides `fields`, `headers` or the `key: true`; this one hides nothing")
    _check_patterns([*document_words.topics, *document_words.clusters])
    for path in document_words.fields:
        if not all(path.split(".")):
            raise ValueError(f"not a valid field path: {path!r} (example: card.number)")
    return MaskRule(
        document_words.topics,
        document_words.clusters,
        document_words.fields,
        document_words.headers,
        document_words.key,
    )


def _audit(document_words: words.AuditWords, clusters: list[str]) -> AuditSettings:
    if document_words.cluster and document_words.cluster not in clusters:
        raise ValueError(f"unknown cluster {document_words.cluster}")
    if document_words.max_bytes < 1 or document_words.files < 1:
        raise ValueError("`max_bytes` and `files` are 1 at least")
    return AuditSettings(
        document_words.max_bytes,
        document_words.files,
        document_words.topic,
        document_words.cluster or (clusters or [""])[0],
    )


def _check_patterns(names: Iterable[str]) -> None:
    for name in names:
        if not name or "*" in name[:-1]:
            raise ValueError(f"not a valid pattern: {name!r}; write a name, or a prefix followed by `*`")
