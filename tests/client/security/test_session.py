"""Requests that wait during a reauthentication. `tests/client/test_secured.py` tests it with a real broker."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.client.errors import AuthenticationError, ClientError
from barnabas.client.security.guard import Guard
from barnabas.client.security.parsing import parse_security
from barnabas.client.security.session import Session
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.protocol.schema import Message

LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "u",
    "sasl.password": "p",
}
FETCH = 1


class Broker:
    """Answers the exchange; the first session expires immediately, later ones never."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.ended: list[ClientError] = []
        self.refuses = False
        self.lifetime_ms = 1
        guard = Guard(parse_security(LOGIN))
        self.session = Session("broker:1", guard, self.answer, self.written.extend, self.ended.append)

    async def answer(self, message: Message, version: int | None) -> Any:
        await asyncio.sleep(0)
        if isinstance(message, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        if self.refuses:
            return SaslAuthenticateResponse(error_code=58, error_message="no longer")
        lifetime, self.lifetime_ms = self.lifetime_ms, 0
        return SaslAuthenticateResponse(session_lifetime_ms=lifetime)


def run(work: Callable[[Broker], Awaitable[None]]) -> None:
    async def main() -> None:
        broker = Broker()
        await broker.session.begin()
        await asyncio.sleep(0.01)
        await work(broker)

    asyncio.run(main())


async def renewed(broker: Broker) -> None:
    assert broker.session._renewal is not None
    async with asyncio.timeout(60):
        await broker.session._renewal


def test_requests_wait_for_the_renewal_and_leave_in_their_order() -> None:
    async def work(broker: Broker) -> None:
        assert all(broker.session.holds(FETCH, [number]) for number in range(3))
        await renewed(broker)
        assert broker.written == [0, 1, 2]
        assert broker.session.renewals == 1
        assert not broker.session.holds(FETCH, [3])

    run(work)


def test_the_exchange_itself_does_not_wait() -> None:
    async def work(broker: Broker) -> None:
        assert broker.session.holds(FETCH, [0])
        assert not broker.session.holds(SaslHandshakeRequest.api_key, [1])
        await renewed(broker)
        assert broker.written == [0]

    run(work)


def test_client_with_an_outdated_epoch_gets_an_error_and_nothing_is_written() -> None:
    async def work(broker: Broker) -> None:
        broker.refuses = True
        assert broker.session.holds(FETCH, [0])
        await renewed(broker)
        assert [type(error) for error in broker.ended] == [AuthenticationError]
        assert "broker:1 rejected this client (PLAIN): no longer" in str(broker.ended[0])
        assert not broker.written

    run(work)
