"""Reloads key stores in a running broker after a change of files, contents or settings (kafka-configs).

Every ten seconds a thread checks the files for changes, renews generated certificates, and loads what has changed.
New connections use the new context; open connections are not affected. Invalid settings are logged once and ignored.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from barnabas.broker.security.inter_broker import peer_tls
from barnabas.broker.security.tls import tls_settings_from
from barnabas.client.security import ClientSecurity, Guard, tls_context
from barnabas.common.safe_logging import safe_logger
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError
from barnabas.network import Fingerprint, TlsListener, TlsListeners, fingerprint, loaded
from barnabas.security.authn import SecuritySettingError
from barnabas.security.tls import ListenerTls, OwnCertificate, TlsSettings

# -- TLS of connections to other brokers ---------------------------------------------------------------


class RenewedTls(NamedTuple):
    tls: TlsSettings
    files: Fingerprint
    context: ssl.SSLContext


class PeerTls:
    """`guard` secures new connections to other brokers; open connections are not affected by changes."""

    def __init__(self, security: ClientSecurity) -> None:
        self._files = fingerprint(security.tls) if security.tls is not None else ()
        self.guard = Guard(security)

    def renewed(self, config: BrokerConfig) -> RenewedTls | None:
        """Return changed settings or files, loaded; None if nothing changed. Raises ConfigError if they are invalid."""
        tls = peer_tls(config)
        if tls is None or (tls == self.guard.security.tls and fingerprint(tls) == self._files):
            return None
        files = fingerprint(tls)  # before loading, so that the next round detects concurrent changes
        try:
            return RenewedTls(tls, files, tls_context(tls))
        except SecuritySettingError as error:
            raise ConfigError(f"Connections to other brokers: {error}") from None

    def use(self, renewed: RenewedTls) -> None:
        self._files = renewed.files
        self.guard.renew(renewed.tls, renewed.context)


T = TypeVar("T")

log = safe_logger(__name__)

CHECK_SECONDS = 10.0
WARN_SECONDS = 30 * 86400
REPEATED_SECONDS = 86400


class TlsChange(NamedTuple):
    listener: TlsListener
    wanted: ListenerTls
    files: Fingerprint
    context: ssl.SSLContext
    certificate: OwnCertificate


class TlsReload:
    """Starts with the first call of `use`."""

    def __init__(self, tls: TlsListeners, config: BrokerConfig, now: Callable[[], float] = time.time) -> None:
        self._tls = tls
        self._config = config
        self._now = now
        self.peers: PeerTls | None = None
        self._problems: dict[str, str] = {}  # already logged
        self._warned: dict[str, float] = {}  # time of the last expiry warning, by listener
        self._soon = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def use(self, config: BrokerConfig) -> None:
        self._config = config
        self._soon.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def check(self, config: BrokerConfig) -> None:
        """Raise ConfigError if these settings are invalid."""
        await self._tls.handshakes.in_thread(lambda: (self._changes(config), self._renewed(config)))

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._soon.wait(), CHECK_SECONDS)
            self._soon.clear()
            await self.look()

    async def look(self) -> None:
        """Check for changes once, and apply them."""
        for change in await self._found("listeners", self._changes) or ():
            change.listener.use(change.wanted, change.context, change.certificate, change.files)
            log.info("listener %s: new TLS settings are in use for new connections", change.wanted.listener)
        renewed = await self._found("connections to other brokers", self._renewed)
        if renewed is not None and self.peers is not None:
            self.peers.use(renewed)
            log.info("new TLS settings are in use for new connections to other brokers")
        self._warn_of_expiry()

    async def _found(self, where: str, find: Callable[[BrokerConfig], T]) -> T | None:
        """Run `find` in a thread and return its result. Invalid settings are logged, and the result is None."""
        config = self._config
        try:
            found = await self._tls.handshakes.in_thread(lambda: find(config))
        except ConfigError as error:
            self._log_once(where, str(error))
            return None
        if found:
            self._problems.pop(where, None)
        return found

    def _renewed(self, config: BrokerConfig) -> RenewedTls | None:
        return None if self.peers is None else self.peers.renewed(config)

    def _changes(self, config: BrokerConfig) -> list[TlsChange]:
        return [
            _change(config, self._tls[wanted.listener], wanted)
            for wanted in tls_settings_from(config)
            if self._tls[wanted.listener].differs(wanted)
        ]

    def _log_once(self, where: str, problem: str) -> None:
        if problem != self._problems.get(where):
            self._problems[where] = problem
            log.error("The new TLS settings are invalid; the previous ones remain in use: %s", problem)

    def _warn_of_expiry(self) -> None:
        now = self._now()
        for listener in self._tls:
            name, left = listener.wanted.listener, listener.certificate.expires - now
            if left > WARN_SECONDS or now < self._warned.get(name, 0.0) + REPEATED_SECONDS:
                continue
            self._warned[name] = now
            log.warning("listener %s: %s", name, _expiry(left))


def _expiry(left: float) -> str:
    what = f"expires in {left / 86400:.0f} days" if left > 0 else "has expired: clients reject it"
    return f"its certificate {what}. Replace it in the key store; no restart is needed."


def _change(config: BrokerConfig, listener: TlsListener, wanted: ListenerTls) -> TlsChange:
    files = fingerprint(wanted)  # before loading, so that the next round detects concurrent changes
    context, certificate = loaded(wanted)
    _check_same_host(config, listener, certificate)
    return TlsChange(listener, wanted, files, context, certificate)


def _check_same_host(config: BrokerConfig, listener: TlsListener, new: OwnCertificate) -> None:
    """Refuse a certificate for a different subject or host unless allowed, as in Kafka (KAFKA-12473)."""
    name, old = listener.wanted.listener, listener.certificate
    if new.subject != old.subject and not config.of_listener(name, "ssl.allow.dn.changes"):
        raise ConfigError(
            f"Listener {name}: the new certificate is for {new.subject} and the old one for {old.subject}. Set "
            "ssl.allow.dn.changes=true in the broker's properties if that is intended, or restart it"
        )
    missing = ", ".join(sorted(old.names - new.names))
    if missing and not config.of_listener(name, "ssl.allow.san.changes"):
        raise ConfigError(
            f"Listener {name}: the new certificate does not cover {missing}. Set ssl.allow.san.changes=true in "
            "the broker's properties if that is intended, or restart it"
        )
