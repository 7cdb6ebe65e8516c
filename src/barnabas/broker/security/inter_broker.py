"""How brokers talk to each other where they do not trust the network: as clients of each other."""

from __future__ import annotations

from barnabas.client.security.identity import parse_sasl
from barnabas.client.security.settings import Mechanism, Protocol, Sasl, Security
from barnabas.config.broker import BrokerConfig
from barnabas.config.definitions import BROKER, UNUSED
from barnabas.config.setting import ConfigError, format_value
from barnabas.security.secret import SecuritySettingError
from barnabas.security.tls.settings import Tls, parse_tls

MECHANISM = "sasl.mechanism.inter.broker.protocol"
_NAMED = (Mechanism.PLAIN, Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)


def peer_security(config: BrokerConfig) -> Security:
    """TLS and SASL as a client of the inter-broker listener of other brokers. ConfigError when they cannot work."""
    listener = config.inter_broker_listener_name
    try:
        sasl = _sasl(config, listener) if _protocol(config).has_sasl else None
    except SecuritySettingError as error:
        raise _unusable(listener, error) from None
    return Security(peer_tls(config), sasl)


def peer_tls(config: BrokerConfig) -> Tls | None:
    """What of it is TLS, if there is any."""
    listener = config.inter_broker_listener_name
    try:
        return parse_tls(_settings(config, listener, "ssl.")) if _protocol(config).has_tls else None
    except SecuritySettingError as error:
        raise _unusable(listener, error) from None


def _unusable(listener: str, error: SecuritySettingError) -> ConfigError:
    return ConfigError(f"Brokers cannot talk to each other over the listener {listener}: {error}")


def _protocol(config: BrokerConfig) -> Protocol:
    for spec in config.listeners:
        if spec.name == config.inter_broker_listener_name:
            return Protocol(spec.security_protocol)
    return Protocol.PLAINTEXT


def own_username(config: BrokerConfig, listener: str) -> str | None:
    """With which this broker logs in there, if the mechanism has names. None where it could not: others are asked
    there, and we are not."""
    try:
        sasl = _sasl(config, listener)
    except SecuritySettingError:
        return None
    return sasl.username if sasl.mechanism in _NAMED else None


def _sasl(config: BrokerConfig, listener: str) -> Sasl:
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
