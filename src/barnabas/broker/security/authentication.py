"""The part of a broker that authenticates: what its listeners offer of SASL, and how it went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from barnabas.broker.security.mechanisms import Mechanisms
from barnabas.common.clock import Clock
from barnabas.cluster.image import MetadataImage
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError
from barnabas.common.safe_logging import safe_logger
from barnabas.network.listener import Listener
from barnabas.security.authz.audit import AuditLog
from barnabas.security.context import RequestContext
from barnabas.security.authn.sasl.login import NOTHING_OFFERED, Login, Offer
from barnabas.security.authn.sasl.scram_users import StoredUsers
from barnabas.security.authn.sasl.scram_users import StoredTokens
from barnabas.common.threads import ThreadBackground

T = TypeVar("T")

log = safe_logger(__name__)


class Authentication:
    """`offers`: by name of the listener. ConfigError when a listener offers what cannot work."""

    def __init__(
        self,
        config: BrokerConfig,
        image: Callable[[], MetadataImage],
        clock: Clock,
        threads: ThreadBackground,
        audit: AuditLog | None = None,
    ) -> None:
        self.failure_delay_seconds: float = config["connection.failed.authentication.delay.ms"] / 1000
        # By whether they succeeded and whether the client had authenticated before; then by listener.
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
        self._mechanisms = Mechanisms(self.users, clock)
        self._config = config
        self._audit = audit
        self.offers = self._offers(config)

    def use(self, config: BrokerConfig, listeners: Iterable[Listener]) -> None:
        """Take over settings, which may have changed while running. New connections see them."""
        if config is not self._config:
            try:
                self.offers = self._offers(config)
            except ConfigError as error:
                log.error("The listeners go on to offer what they did: %s", error)
        self._config = config
        for listener in listeners:
            listener.offer = self.offers.get(listener.name, NOTHING_OFFERED)

    def _offers(self, config: BrokerConfig) -> dict[str, Offer]:
        return {
            spec.name: self._mechanisms.offer(config, spec.name)
            for spec in config.listeners
            if spec.security_protocol.startswith("SASL")
        }

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await self._threads.call(work)

    def count(self, context: RequestContext, login: Login, *, succeeded: bool) -> None:
        self.counts[succeeded, login.is_again][context.listener] += 1
        if self._audit is not None:
            principal = str(login.principal) if succeeded else None
            self._audit.logged_in(context, login.mechanism, principal, succeeded)

    def close(self) -> None:
        self._threads.close(drop_waiting=True)
