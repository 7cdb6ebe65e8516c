"""Security of inter-broker connections: client settings, and identification of brokers by principal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from barnabas.broker.security.tls import tls_settings_from
from barnabas.client.security import ClientSecurity, Mechanism, SaslSettings, SecurityProtocol, parse_sasl
from barnabas.config.broker import BrokerConfig
from barnabas.config.definitions import BROKER, UNUSED
from barnabas.config.setting import ConfigError, format_value
from barnabas.network import PROCESSES_LISTENER
from barnabas.security import ANONYMOUS, USER, RequestContext
from barnabas.security.authn import SecuritySettingError
from barnabas.security.authz import Action, Authorizer, Operation, ResourceType
from barnabas.security.tls import (
    ListenerTls,
    MappingRules,
    NoRuleAppliesError,
    TlsSettings,
    own_certificate,
    parse_tls,
)

MECHANISM = "sasl.mechanism.inter.broker.protocol"
_NAMED = (Mechanism.PLAIN, Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)


def peer_security(config: BrokerConfig) -> ClientSecurity:
    """Return the TLS and SASL client settings for the inter-broker listener. Raises ConfigError if they are invalid."""
    listener = config.inter_broker_listener_name
    try:
        sasl = _sasl(config, listener) if _protocol(config).has_sasl else None
    except SecuritySettingError as error:
        raise _unusable(listener, error) from None
    return ClientSecurity(peer_tls(config), sasl)


def peer_tls(config: BrokerConfig) -> TlsSettings | None:
    """Return the TLS settings for the inter-broker listener; None if it does not use TLS."""
    listener = config.inter_broker_listener_name
    try:
        return parse_tls(_settings(config, listener, "ssl.")) if _protocol(config).has_tls else None
    except SecuritySettingError as error:
        raise _unusable(listener, error) from None


def _unusable(listener: str, error: SecuritySettingError) -> ConfigError:
    return ConfigError(f"Brokers cannot communicate over the listener {listener}: {error}")


def _protocol(config: BrokerConfig) -> SecurityProtocol:
    for spec in config.listeners:
        if spec.name == config.inter_broker_listener_name:
            return SecurityProtocol(spec.security_protocol)
    return SecurityProtocol.PLAINTEXT


def own_username(config: BrokerConfig, listener: str) -> str | None:
    """Return the user name of this broker on a listener. None if the mechanism has no names, or if this broker has no
    valid SASL client settings for the listener."""
    try:
        sasl = _sasl(config, listener)
    except SecuritySettingError:
        return None
    return sasl.username if sasl.mechanism in _NAMED else None


def _sasl(config: BrokerConfig, listener: str) -> SaslSettings:
    mechanism: str = config[MECHANISM]
    offered: tuple[str, ...] = config.of_listener(listener, "sasl.enabled.mechanisms")
    if mechanism not in offered:
        raise SecuritySettingError(
            MECHANISM, f"is {mechanism}, which the listener does not offer: it offers {', '.join(offered)}"
        )
    own = _settings(config, listener, "sasl.oauthbearer.", mechanism)
    jaas = config.of_listener(listener, "sasl.jaas.config", mechanism)
    return parse_sasl({**own, "sasl.mechanism": mechanism, **({"sasl.jaas.config": jaas} if jaas else {})})


def _settings(config: BrokerConfig, listener: str, prefix: str, mechanism: str = "") -> dict[str, str]:
    names = (name for name in (*BROKER, *UNUSED) if name.startswith(prefix))
    texts = {name: format_value(config.of_listener(listener, name, mechanism)) for name in names}
    return {name: text for name, text in texts.items() if text is not None}


# -- Identification of brokers on inter-broker listeners: by principal, by ClusterAction, or by listener

IsBroker = Callable[[RequestContext], bool]

_ACTION = Action(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)


class InterBrokerNames(NamedTuple):
    """Principals of this broker on the inter-broker listeners; several during a change of listeners."""

    by_login: frozenset[str] = frozenset()
    by_certificate: frozenset[str] = frozenset()

    @property
    def principals(self) -> frozenset[str]:
        return self.by_login | self.by_certificate


def own_names(config: BrokerConfig) -> InterBrokerNames:
    for_brokers = {spec.name: spec for spec in config.listeners if spec.name in config.listeners_for_brokers}
    with_sasl = {
        name for name, spec in for_brokers.items() if SecurityProtocol(spec.security_protocol).has_sasl
    }
    logins = (own_username(config, name) for name in with_sasl)
    certificates = (
        wanted
        for wanted in (tls_settings_from(config) if for_brokers.keys() - with_sasl else ())
        if wanted.listener in for_brokers.keys() - with_sasl and wanted.client_auth != "none"
    )
    return InterBrokerNames(
        frozenset(f"{USER}:{name}" for name in logins if name is not None),
        frozenset(f"{USER}:{name}" for wanted in certificates for name in _certified(wanted)),
    )


def _certified(wanted: ListenerTls) -> Iterator[str]:
    """Yield the name in this broker's certificate. Errors are reported when the listener is created, not here."""
    with contextlib.suppress(SecuritySettingError, NoRuleAppliesError):
        if wanted.tls.certificate is not None:
            subject = own_certificate(wanted.tls.certificate).subject
            yield MappingRules.parse(wanted.mapping_rules).name_of(subject)


class BrokerNames:
    """Decides if a client of an inter-broker listener is a broker."""

    def __init__(self, config: BrokerConfig, own: InterBrokerNames, authorizer: Authorizer | None) -> None:
        super_users = {name.strip() for name in config["super.users"].split(";") if name.strip()}
        self._names = super_users | own.principals
        self._authorizer = authorizer
        self._alone = config.listener_of_brokers_alone
        self._with_sasl = {
            spec.name for spec in config.listeners if SecurityProtocol(spec.security_protocol).has_sasl
        }
        # Every broker may have a different certificate name, so with TLS only super.users can list all brokers.
        self._is_told = {True: bool(super_users | own.by_login), False: bool(super_users)}

    def may_be_broker(self, context: RequestContext) -> bool:
        """True for principals of this broker, super users, and principals with ClusterAction. Without an authorizer,
        every client counts as a broker if the names of the brokers are not known on this listener."""
        if self._is_named(context):
            return True
        return self._authorizer is None and not self._is_told[context.listener in self._with_sasl]

    def is_authenticated_broker(self, context: RequestContext) -> bool:
        """Like `may_be_broker`, but requires a known principal unless the listener is reserved for brokers."""
        if not context.is_privileged:
            return False
        if context.listener in (self._alone, PROCESSES_LISTENER):
            return True
        return context.principal != ANONYMOUS and self._is_named(context)

    def _is_named(self, context: RequestContext) -> bool:
        if str(context.principal) in self._names:
            return True
        return self._authorizer is not None and self._authorizer.decisions(context)[_ACTION]
