"""Address and credentials of a schema registry: the one place that defines their settings.

Names are those of Confluent's clients and Kafka Connect converters: `schema.registry.url`, `basic.auth.user.info`, ...
The source and sink of Spark, tables, connectors, pipelines and `--command-config` files accept them. Secrets are masked
in repr.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from barnabas.client.schemas.client import TIMEOUT, SchemaClient
from barnabas.client.security import is_security_setting, resolve, tls_context
from barnabas.common.suggestions import closest
from barnabas.security.authn import Secret, SecuritySettingError
from barnabas.security.tls import TlsSettings, parse_tls

REGISTRY_PREFIX = "schema.registry."
REGISTRY_URL = f"{REGISTRY_PREFIX}url"
BASIC_LOGIN, BEARER_TOKEN = "basic.auth.user.info", "bearer.auth.token"
_BASIC_SOURCE, _BEARER_SOURCE = "basic.auth.credentials.source", "bearer.auth.credentials.source"
_SOURCES = {_BASIC_SOURCE: ("USER_INFO", "URL"), _BEARER_SOURCE: ("STATIC_TOKEN",)}
_VERIFY = "enable.ssl.certificate.verification"

UNDERSTOOD = {
    REGISTRY_URL: "Address of the schema registry, `https://HOST:PORT`.",
    REGISTRY_PREFIX + BASIC_LOGIN: "`USER:PASSWORD`; also without `schema.registry.`.",
    REGISTRY_PREFIX + BEARER_TOKEN: "A token, instead of user and password; also without `schema.registry.`.",
    f"{REGISTRY_PREFIX}ssl.ca.location": (
        "PEM file with the trusted CAs; default: those of the system. All `ssl.*` settings of the connection to "
        "brokers can be used with this prefix."
    ),
    f"{REGISTRY_PREFIX}ssl.certificate.location": (
        "PEM file with the certificate of this client, for a registry that requires one."
    ),
    f"{REGISTRY_PREFIX}ssl.key.location": "PEM file with its key.",
}
_WITHOUT_PREFIX = frozenset({BASIC_LOGIN, BEARER_TOKEN, _BASIC_SOURCE, _BEARER_SOURCE})
_SECRET = re.compile(r"password$|\.key$|key\.pem$|user\.info$|auth\.token$")


@dataclass(frozen=True, slots=True)
class RegistryAccount:
    """Address and login of a registry. Picklable for Spark tasks. Without a URL it is to be discovered."""

    url: str = ""
    user: str = ""
    password: Secret = Secret("")  # noqa: RUF009 - frozen
    token: Secret = Secret("")  # noqa: RUF009 - frozen
    tls: TlsSettings | None = None
    discovered: bool = False

    @classmethod
    def at(cls, url: str) -> Self:
        """A registry by its URL, which may contain user and password; ValueError if it is not valid."""
        parts = urllib.parse.urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else url
            raise ValueError(f"{shown!r} is not a valid schema registry URL: write http://HOST:PORT")
        where = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        user, password = (urllib.parse.unquote(part or "") for part in (parts.username, parts.password))
        return cls(where, user, Secret(password))

    @property
    def has_credentials(self) -> bool:
        return bool(self.user or self.token.text)

    @property
    def is_located(self) -> bool:
        return bool(self.url)

    def client(self, timeout: float = TIMEOUT) -> SchemaClient:
        """SecuritySettingError for a file that cannot be read."""
        return SchemaClient(
            self.url,
            user=self.user,
            password=self.password.text,
            token=self.token.text,
            timeout=timeout,
            tls=None if self.tls is None else tls_context(self.tls),
        )


NO_ACCOUNT = RegistryAccount()


def is_registry_setting(name: str) -> bool:
    return name.startswith(REGISTRY_PREFIX) or name in _WITHOUT_PREFIX


def is_secret_setting(name: str) -> bool:
    """True if the value must not be shown."""
    return is_registry_setting(name) and _SECRET.search(name) is not None


def check_registry_setting(name: str) -> None:
    """SecuritySettingError for an unknown name: a misspelt one must not lead to a connection without credentials."""
    short = name.removeprefix(REGISTRY_PREFIX)
    if name == REGISTRY_URL or short in _WITHOUT_PREFIX or short == _VERIFY:
        return
    if short.startswith("ssl.") and is_security_setting(short):
        return
    match = closest(name, UNDERSTOOD)
    raise SecuritySettingError(
        name, f"is not known; did you mean {match}?" if match is not None else "is not known"
    )


def parse_registry(
    given: Mapping[str, str], url: str | None = None, *, references: bool = False
) -> RegistryAccount | None:
    """Access by the settings of a registry among others; None if there are none, nor a `url`, which takes precedence.

    `references`: look up `${env:...}` and `${file:...}`. Not for settings of unknown origin.
    """
    recognized = {name: value for name, value in given.items() if is_registry_setting(name)}
    if not recognized and not url:
        return None
    for name in recognized:
        check_registry_setting(name)
    values = {
        name.removeprefix(REGISTRY_PREFIX): resolve(name, value, trusted=references)
        for name, value in recognized.items()
    }
    url = resolve(REGISTRY_URL, url, trusted=references) if url else values.get("url", "")
    access = RegistryAccount() if not url else _at(url)
    return _with_tls(_with_login(access, values), values)


def _at(url: str) -> RegistryAccount:
    try:
        return RegistryAccount.at(url)
    except ValueError as error:
        raise SecuritySettingError(REGISTRY_URL, f"is not usable: {error}") from None


def _with_login(access: RegistryAccount, values: Mapping[str, str]) -> RegistryAccount:
    for name, known in _SOURCES.items():
        if values.get(name, known[0]) not in known:
            raise SecuritySettingError(
                REGISTRY_PREFIX + name, f"must be {' or '.join(known)}, not {values[name]!r}"
            )
    info, token = values.get(BASIC_LOGIN), values.get(BEARER_TOKEN)
    if info and token:
        raise SecuritySettingError(
            REGISTRY_PREFIX + BEARER_TOKEN, f"cannot be combined with {BASIC_LOGIN}: set one of them"
        )
    if token:
        return replace(access, user="", password=Secret(""), token=Secret(token))
    if info:
        user, colon, password = info.partition(":")
        if not colon or not user:
            raise SecuritySettingError(REGISTRY_PREFIX + BASIC_LOGIN, "must be USER:PASSWORD")
        return replace(access, user=user, password=Secret(password))
    return access


def _with_tls(access: RegistryAccount, values: Mapping[str, str]) -> RegistryAccount:
    tls = {name: value for name, value in values.items() if name.startswith("ssl.") or name == _VERIFY}
    if not tls:
        return access
    if access.url.startswith("http:"):
        first = next(iter(tls))
        raise SecuritySettingError(
            REGISTRY_PREFIX + first, f"has no effect on {access.url}: the URL must be https"
        )
    return replace(access, tls=parse_tls(tls))
