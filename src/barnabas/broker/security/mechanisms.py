"""SASL mechanisms of a listener, from its settings. Raises ConfigError if one is not usable.

Errors never quote settings that contain passwords.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.clock import Clock
from barnabas.config.broker import BrokerConfig
from barnabas.config.properties import parse_properties
from barnabas.config.sasl_settings import MECHANISMS
from barnabas.config.setting import ConfigError
from barnabas.security.authn import LoginModule, ScramMechanism, SecuritySettingError, parse_jaas
from barnabas.security.authn.sasl import (
    NO_USERS,
    ListedUsers,
    Offer,
    Offered,
    PasswordCheck,
    PlainExchange,
    ScramExchange,
    ScramUsers,
    ServerExchange,
    listed_users,
    message_limit,
)

if TYPE_CHECKING:
    from barnabas.security.authn.sasl import Acceptor
    from barnabas.security.jwt import JwtRules, KeySource, PublicKey


# -- Third-party authenticators for PLAIN, registered as entry points of installed packages ------------

GROUP = "barnabas.authenticators"
SETTING = "barnabas.plain.authenticator"

Factory = Callable[[Mapping[str, str]], PasswordCheck]
"""Creates a password check from the options in the file `barnabas.plain.authenticator.config`."""


def load_authenticator(name: str, config: str | None) -> PasswordCheck:
    """Load an authenticator. Raises ConfigError if it is not installed or its options are invalid."""
    from importlib.metadata import entry_points  # imports 30 modules; most brokers need none of them

    installed = {each.name: each for each in entry_points(group=GROUP)}
    if name not in installed:
        known = ", ".join(sorted(installed)) or "none"
        raise ConfigError(
            f"{SETTING} is {name}, but no installed package provides that authenticator ({GROUP}): "
            f"there is {known}"
        )
    make: Factory = installed[name].load()
    try:
        return make(_options(config))
    except SecuritySettingError as error:
        raise ConfigError(f"Cannot use the authenticator {name}: {error}") from None
    except OSError as error:
        raise ConfigError(f"Cannot use the authenticator {name}: {error.strerror or error}") from None


def _options(config: str | None) -> dict[str, str]:
    if config is None:
        return {}
    try:
        return parse_properties(Path(config).read_text())
    except OSError as error:
        raise ConfigError(
            f"{SETTING}.config names {config}, which cannot be read: {error.strerror}"
        ) from None


_PLAIN_MODULE = "PlainLoginModule"
_KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"

NewExchange = Callable[[], ServerExchange]

# Mechanisms are imported on demand: GSSAPI and OAUTHBEARER need additional libraries.


class SaslMechanisms:
    """State shared by the SASL exchanges of all listeners."""

    def __init__(self, users: ScramUsers, clock: Clock) -> None:
        self._users = users
        self._clock = clock
        self._plain_users: dict[str, ListedUsers] = {}  # by listener
        self._key_sources: dict[str, KeySource] = {}
        self._parsed_users: dict[str, ListedUsers] = {}  # of the configuration being parsed
        self._new_sources: dict[str, KeySource] = {}
        self._makers: Mapping[str, Callable[[BrokerConfig, str], NewExchange]] = {
            "PLAIN": self._plain,
            "OAUTHBEARER": self._oauthbearer,
            "GSSAPI": self._gssapi,
            **{each.sasl_name: partial(self._scram, each) for each in ScramMechanism},
        }

    def offers(self, config: BrokerConfig) -> dict[str, Offer]:
        """Return the offers by listener. After a ConfigError the previous offers remain in effect."""
        self._parsed_users, self._new_sources = {}, {}
        offers = {
            spec.name: self._offer(config, spec.name)
            for spec in config.listeners
            if spec.security_protocol.startswith("SASL")
        }
        self._use_plain_users()
        self._key_sources.update(self._new_sources)
        return offers

    def _use_plain_users(self) -> None:
        """Update the users of existing offers in place: open connections must not reauthenticate with old passwords."""
        for listener, users in self._plain_users.items():
            users.replace(self._parsed_users.get(listener, NO_USERS))
        self._plain_users = {**self._parsed_users, **self._plain_users}

    def renew_keys(self) -> None:
        """Refresh stale keys of identity providers. Blocks."""
        for source in self._key_sources.values():
            source.renew_if_old()

    @property
    def keys_fetched(self) -> float:
        """Time of the last key fetch, by a login or by `renew_keys`."""
        return max((source.fetched for source in self._key_sources.values()), default=float("-inf"))

    @property
    def has_old_keys(self) -> bool:
        return any(source.is_old for source in self._key_sources.values())

    def _offer(self, config: BrokerConfig, listener: str) -> Offer:
        names: tuple[str, ...] = config.of_listener(listener, "sasl.enabled.mechanisms")
        if not names:
            raise ConfigError(
                f"sasl.enabled.mechanisms is empty, but the listener {listener} uses SASL: set at least one"
            )
        return {
            name: Offered(
                self._new_exchange(config, listener, name),
                config.of_listener(listener, "connections.max.reauth.ms", name),
                None if name == "GSSAPI" else config[message_limit(name)],
            )
            for name in names
        }

    def _new_exchange(self, config: BrokerConfig, listener: str, name: str) -> NewExchange:
        if name not in self._makers:
            raise ConfigError(
                f"The listener {listener} offers {name} (sasl.enabled.mechanisms), which Barnabas does not support: "
                f"set listener.name.{listener.lower()}.sasl.enabled.mechanisms to one of {', '.join(MECHANISMS)}"
            )
        return self._makers[name](config, listener)

    def _scram(self, mechanism: ScramMechanism, config: BrokerConfig, listener: str) -> NewExchange:
        return lambda: ScramExchange(mechanism, self._users)

    def _plain(self, config: BrokerConfig, listener: str) -> NewExchange:
        name = config.of_listener(listener, "barnabas.plain.authenticator", "PLAIN")
        if name is None:
            self._parsed_users[listener] = plain_users(config, listener)
            return lambda: PlainExchange(self._plain_users[listener])

        options = config.of_listener(listener, "barnabas.plain.authenticator.config", "PLAIN")
        check = load_authenticator(name, options)
        return lambda: PlainExchange(check)

    def _gssapi(self, config: BrokerConfig, listener: str) -> NewExchange:
        from barnabas.security.authn.sasl import GssapiExchange

        acceptor = kerberos_acceptor(config, listener)
        now_ms = self._clock.now_ms if config["barnabas.credential.change.ends.sessions"] else None
        return lambda: GssapiExchange(acceptor, now_ms)

    def _oauthbearer(self, config: BrokerConfig, listener: str) -> NewExchange:
        from barnabas.security.authn.sasl import OAuthBearerExchange
        from barnabas.security.jwt import URL, key_source  # imports an HTTP client

        def setting(name: str) -> object:
            value = config.of_listener(listener, name, "OAUTHBEARER")
            if not value:
                raise ConfigError(
                    f"The listener {listener} offers OAUTHBEARER, which needs {name}: any token would be accepted "
                    f"without it. Set listener.name.{listener.lower()}.oauthbearer.{name}"
                )
            return value

        url, rules = str(setting(URL)), token_rules(config, listener, setting)
        first, limit, refresh = (
            config.of_listener(listener, name, "OAUTHBEARER") / 1000
            for name in (
                "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
                "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
                "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            )
        )
        try:
            self._new_sources[listener] = key_source(url, refresh, (first, limit), self._clock.monotonic)
        except SecuritySettingError as error:
            raise ConfigError(str(error)) from None
        keys = _CurrentKeys(self._key_sources, listener)
        return lambda: OAuthBearerExchange(keys, rules, lambda: self._clock.now_ms() / 1000)


class _CurrentKeys(NamedTuple):
    """Keys of a listener's identity provider, looked up in the current settings."""

    sources: Mapping[str, KeySource]
    listener: str

    def find(self, key_id: str | None) -> PublicKey | None:
        return self.sources[self.listener].find(key_id)

    def holds(self, key: PublicKey) -> bool:
        return self.sources[self.listener].holds(key)


def token_rules(config: BrokerConfig, listener: str, required: Callable[[str], object]) -> JwtRules:
    from barnabas.security.jwt import JwtRules

    def setting(name: str) -> object:
        return config.of_listener(listener, name, "OAUTHBEARER")

    audiences = required("sasl.oauthbearer.expected.audience")
    algorithms = setting("barnabas.sasl.oauthbearer.algorithms")
    assert isinstance(audiences, tuple)
    assert isinstance(algorithms, tuple)
    return JwtRules(
        issuer=str(required("sasl.oauthbearer.expected.issuer")),
        audiences=frozenset(audiences),
        algorithms=frozenset(algorithms),
        skew_seconds=float(str(setting("sasl.oauthbearer.clock.skew.seconds"))),
        subject_claim=str(setting("sasl.oauthbearer.sub.claim.name")),
        scope_claim=str(setting("sasl.oauthbearer.scope.claim.name")),
    )


def plain_users(config: BrokerConfig, listener: str) -> ListedUsers:
    example = f'org.apache.kafka.common.security.plain.{_PLAIN_MODULE} required user_alice="her password";'
    return listed_users(_module(config, listener, "PLAIN", _PLAIN_MODULE, example))


def kerberos_acceptor(config: BrokerConfig, listener: str) -> Acceptor:
    from barnabas.security.authn import parse_rules
    from barnabas.security.authn.sasl import Acceptor

    example = (
        f'{_KERBEROS_MODULE} required useKeyTab=true keyTab="/etc/kafka.keytab" principal="kafka/host@REALM";'
    )
    options = _module(config, listener, "GSSAPI", _KERBEROS_MODULE.rpartition(".")[2], example).options
    keytab, principal = options.get("keyTab"), options.get("principal", "")
    if not keytab or "@" not in principal:
        raise ConfigError(
            f"{_jaas_setting(listener, 'GSSAPI')} must have keyTab and principal (example: {example})"
        )
    service = config.of_listener(listener, "sasl.kerberos.service.name", "GSSAPI")
    if service and principal.partition("/")[0] != service:
        raise ConfigError(
            f"sasl.kerberos.service.name is {service}, but the principal of the keytab is {principal}"
        )
    try:
        rules = parse_rules(config.of_listener(listener, "sasl.kerberos.principal.to.local.rules", "GSSAPI"))
        return Acceptor(keytab, principal, rules)
    except SecuritySettingError as error:
        raise ConfigError(f"The listener {listener} cannot offer GSSAPI: {error}") from None
    except ValueError as error:
        raise ConfigError(f"sasl.kerberos.principal.to.local.rules: {error}") from None


def _jaas_setting(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"


def _module(config: BrokerConfig, listener: str, mechanism: str, name: str, example: str) -> LoginModule:
    setting = _jaas_setting(listener, mechanism)
    text = config.of_listener(listener, "sasl.jaas.config", mechanism)
    if text is None:
        raise ConfigError(
            f"The listener {listener} offers {mechanism}, but no users are configured: set {setting}={example}"
        )
    try:
        module = parse_jaas(text)
    except SecuritySettingError as error:
        raise ConfigError(f"{setting} {error.problem}") from None
    if module.name != name:
        raise ConfigError(f"{setting} must contain {name} (example: {setting}={example})")
    return module
