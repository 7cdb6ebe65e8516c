"""TLS of the connections to other brokers: key stores may change while the broker runs, as those of listeners may."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from barnabas.broker.security.inter_broker import peer_tls
from barnabas.client.security.guard import Guard
from barnabas.client.security.settings import Security
from barnabas.client.security.tls import tls_context
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError
from barnabas.network.tls_listeners import Fingerprint, fingerprint
from barnabas.security.secret import SecuritySettingError
from barnabas.security.tls.settings import Tls


class Renewed(NamedTuple):
    tls: Tls
    files: Fingerprint
    context: ssl.SSLContext


class PeerTls:
    """`guard` is what new connections to other brokers are made with; open ones keep what they have."""

    def __init__(self, security: Security) -> None:
        self._files = fingerprint(security.tls) if security.tls is not None else ()
        self.guard = Guard(security)

    def renewed(self, config: BrokerConfig) -> Renewed | None:
        """What has changed, in the settings or in the files. Reads files; ConfigError for what cannot be used."""
        tls = peer_tls(config)
        if tls is None or (tls == self.guard.security.tls and fingerprint(tls) == self._files):
            return None
        files = fingerprint(tls)  # before they are read: what changes meanwhile is found in the next round
        try:
            return Renewed(tls, files, tls_context(tls))
        except SecuritySettingError as error:
            raise ConfigError(f"Connections to other brokers: {error}") from None

    def use(self, renewed: Renewed) -> None:
        self._files = renewed.files
        self.guard.renew(renewed.tls, renewed.context)
