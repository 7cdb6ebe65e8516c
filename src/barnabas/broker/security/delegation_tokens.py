"""Delegation tokens: their secret key, and the removal of expired tokens by the controller."""

from __future__ import annotations

import asyncio

from barnabas.common.clock import Clock
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.config.broker import BrokerConfig
from barnabas.controller import Controller, remove_expired
from barnabas.security.authn import TokenSecrets, is_expired

logger = safe_logger(__name__)


class DelegationTokens:
    """`check` runs periodically and acts every delegation.token.expiry.check.interval.ms."""

    def __init__(self, config: BrokerConfig, controller: Controller, clock: Clock) -> None:
        key = config["delegation.token.secret.key"]
        self.secrets = TokenSecrets(key) if key else None
        """None if delegation tokens are disabled."""
        self._interval = config["delegation.token.expiry.check.interval.ms"] / 1000
        self._controller = controller
        self._clock = clock
        self._last_check = clock.monotonic()
        self._task: asyncio.Task[None] | None = None

    def check(self) -> None:
        now = self._clock.monotonic()
        if not self._controller.is_active or now - self._last_check < self._interval:
            return
        self._last_check = now
        tokens = self._controller.image.delegation_tokens.values()
        if any(is_expired(token, self._clock.expiry_ms()) for token in tokens):
            self._task = asyncio.ensure_future(self._remove())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _remove(self) -> None:
        now_ms = self._clock.expiry_ms()  # a token that was removed is lost for good
        try:
            count = await self._controller.submit(lambda image: remove_expired(image, now_ms))
            logger.info("removed %d expired delegation tokens", count)
        except KafkaError as error:
            logger.warning("cannot remove expired delegation tokens; will retry: %s", error)
