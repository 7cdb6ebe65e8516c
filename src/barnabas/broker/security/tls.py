"""TLS of a broker's listeners, from its configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError
from barnabas.network import TlsListeners
from barnabas.security.authn import SecuritySettingError
from barnabas.security.tls import Authority, ListenerTls, listener_tls, own_hosts

FOLDER = "tls"  # within the first log dir


def tls_from(config: BrokerConfig) -> TlsListeners:
    """Load the key stores of all TLS listeners. Raises ConfigError if one is missing or invalid."""
    return TlsListeners(tls_settings_from(config), config["barnabas.tls.handshakes.max"])


def tls_settings_from(config: BrokerConfig) -> list[ListenerTls]:
    """Return the settings of each TLS listener. Generates certificates if `barnabas.tls.auto` is set."""
    secured = [spec.name for spec in config.listeners if spec.has_tls]
    made = _made(config) if secured and config["barnabas.tls.auto"] else {}
    return [_settings_of(config, name, made) for name in secured]


def _settings_of(config: BrokerConfig, listener: str, made: dict[str, str]) -> ListenerTls:
    has_own = any(
        config.of_listener(listener, name)
        for name in ("ssl.keystore.location", "ssl.keystore.certificate.chain")
    )

    def setting(name: str) -> Any:
        value = config.of_listener(listener, name)
        return made.get(name) if value is None and not has_own else value

    return listener_tls(listener, setting)


def authority_of(config: BrokerConfig) -> Authority:
    """Return the certificate authority of this broker, which may not exist yet."""
    return Authority(Path(config.log_dirs[0]) / FOLDER)


def _made(config: BrokerConfig) -> dict[str, str]:
    authority = authority_of(config)
    values = {spec.host for spec in (*config.listeners, *config.advertised_listeners)}
    try:
        authority.provide(own_hosts(values))
    except SecuritySettingError as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        problem = f"barnabas.tls.auto cannot write {authority.folder}: {error.strerror}"
        raise ConfigError(problem) from None
    return {
        "ssl.keystore.location": str(authority.broker),
        "ssl.truststore.location": str(authority.certificate),
    }


def secured(tls: TlsListeners, listener: str) -> dict[str, Any]:
    """Return the TLS arguments of a `Listener`; empty for a listener without TLS."""
    if listener not in tls:
        return {}
    return {
        "wrap": tls[listener].wrap,
        "pace": tls.handshakes.delay,
        "requires_certificate": tls[listener].wanted.client_auth == "required",
    }
