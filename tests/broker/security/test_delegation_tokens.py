"""Expired tokens are removed from the metadata."""

from __future__ import annotations

import asyncio

from barnabas.broker.security.delegation_tokens import DelegationTokens
from barnabas.cluster.deltas import DelegationTokenStored, FeatureFinalized
from barnabas.cluster.features import METADATA_VERSION, SECURITY_LEVEL
from barnabas.cluster.store import MemoryMetadataStore
from barnabas.common.clock import ManualClock
from barnabas.config.broker import BrokerConfig
from barnabas.controller.controller import Controller
from barnabas.security.authn.credentials import DelegationToken

CONFIG = BrokerConfig.load({"delegation.token.expiry.check.interval.ms": "60000"})


def token(name: str, expires_ms: int) -> DelegationTokenStored:
    return DelegationTokenStored(DelegationToken(name, "User:a", "User:a", (), 0, expires_ms, expires_ms))


async def checked(expiry: DelegationTokens) -> None:
    expiry.check()
    for _ in range(20):
        await asyncio.sleep(0)


def test_expired_tokens_are_removed_by_the_clock_and_others_stay() -> None:
    async def main() -> None:
        clock = ManualClock()
        controller = Controller(MemoryMetadataStore(), 1)
        expiry = DelegationTokens(CONFIG, controller, clock)
        await controller.start()
        now = clock.now_ms()
        stored = [token("short", now + 30_000), token("long", now + 90_000)]
        await controller.submit(lambda image: ([FeatureFinalized(METADATA_VERSION, SECURITY_LEVEL)], None))
        await controller.submit(lambda image: ([*stored], None))
        clock.advance(59_000)
        await checked(expiry)
        assert set(controller.image.delegation_tokens) == {"short", "long"}
        clock.advance(1_000)
        await checked(expiry)
        assert set(controller.image.delegation_tokens) == {"long"}
        clock.advance(30_000)
        await checked(expiry)
        assert set(controller.image.delegation_tokens) == {"long"}
        clock.advance(30_000)
        controller.resign()
        await checked(expiry)
        assert set(controller.image.delegation_tokens) == {"long"}
        expiry.stop()

    asyncio.run(main())


class JumpingClock(ManualClock):
    """A clock that was set ahead by a mistake: `expiry_ms` does not follow."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def expiry_ms(self) -> int:
        return super().now_ms()


def test_a_clock_that_jumps_ahead_removes_no_token() -> None:
    async def main() -> None:
        clock = JumpingClock()
        controller = Controller(MemoryMetadataStore(), 1)
        expiry = DelegationTokens(CONFIG, controller, clock)
        await controller.start()
        stored = token("day", clock.now_ms() + 86_400_000)
        await controller.submit(lambda image: ([FeatureFinalized(METADATA_VERSION, SECURITY_LEVEL)], None))
        await controller.submit(lambda image: ([stored], None))
        clock.ahead_ms = 30 * 86_400_000
        clock.advance(60_000)
        await checked(expiry)
        assert set(controller.image.delegation_tokens) == {"day"}
        clock.advance(86_400_000)
        await checked(expiry)
        assert not controller.image.delegation_tokens
        expiry.stop()

    asyncio.run(main())
