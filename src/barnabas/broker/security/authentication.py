"""Authentication of a broker: SASL mechanisms of its listeners, and counts of successes and failures."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from barnabas.broker.security.mechanisms import SaslMechanisms
from barnabas.cluster.image import MetadataImage
from barnabas.common.clock import Clock
from barnabas.common.safe_logging import safe_logger
from barnabas.common.threads import ThreadBackground
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError
from barnabas.network import Listener
from barnabas.security import RequestContext
from barnabas.security.authn.sasl import NOTHING_OFFERED, SaslLogin, StoredTokens, StoredUsers
from barnabas.security.authz import AuditLog

T = TypeVar("T")

log = safe_logger(__name__)


class Authentication:
    """`offers` maps listener names to SASL offers. Raises ConfigError if a mechanism is not usable."""

    def __init__(
        self,
        config: BrokerConfig,
        image: Callable[[], MetadataImage],
        clock: Clock,
        threads: ThreadBackground,
        audit: AuditLog | None = None,
    ) -> None:
        self.failure_delay_seconds: float = config["connection.failed.authentication.delay.ms"] / 1000
        # Keys: (succeeded, reauthentication), then listener.
        self.counts: dict[tuple[bool, bool], Counter[str]] = {
            (succeeded, is_again): Counter() for succeeded in (True, False) for is_again in (True, False)
        }
        self._threads = threads
        tokens = StoredTokens(
            lambda: image().delegation_tokens, config["delegation.token.secret.key"], clock.now_ms
        )
        self.users = StoredUsers(
            lambda: image().scram_credentials, tokens, decoy_key=lambda: image().scram_decoy_key
        )
        self._mechanisms = SaslMechanisms(self.users, clock)
        self._config = config
        self._audit = audit
        self.offers = self._mechanisms.offers(config)
        self._renewal: asyncio.Task[None] | None = None
        self._keys_checked = float("-inf")

    def use(self, config: BrokerConfig, listeners: Iterable[Listener]) -> None:
        """Apply a changed configuration. It affects new connections."""
        if config is not self._config:
            try:
                self.offers = self._mechanisms.offers(config)
            except ConfigError as error:
                log.error("The new SASL settings are invalid and are ignored: %s", error)
        self._config = config
        for listener in listeners:
            listener.offer = self.offers.get(listener.name, NOTHING_OFFERED)

    def renew_keys(self, renewed: Callable[[], None]) -> None:
        """Refresh stale keys of identity providers in a thread. `renewed` is called after each fetch, including fetches
        triggered by a login."""
        fetched = self._mechanisms.keys_fetched
        if fetched > self._keys_checked:
            self._keys_checked = fetched
            renewed()
        if self._mechanisms.has_old_keys and (self._renewal is None or self._renewal.done()):
            self._renewal = asyncio.ensure_future(self._renew_keys(renewed))

    async def _renew_keys(self, renewed: Callable[[], None]) -> None:
        await self.in_thread(self._mechanisms.renew_keys)
        renewed()

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await self._threads.call(work)

    def count(self, context: RequestContext, login: SaslLogin, *, succeeded: bool) -> None:
        self.counts[succeeded, login.is_again][context.listener] += 1
        if self._audit is not None:
            principal = str(login.principal) if succeeded else None
            self._audit.logged_in(context, login.mechanism, principal, succeeded)

    def close(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        self._threads.close(drop_waiting=True)
