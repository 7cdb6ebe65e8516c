"""Requests to other brokers as a seam. One broker alone answers itself, without a socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from barnabas.errors import ErrorCode, KafkaError


class Peers(Protocol):
    async def send(self, broker_id: int, request: Any) -> Any:
        """The response message; a `KafkaError` (BROKER_NOT_AVAILABLE) when the broker cannot be reached."""
        ...


class LocalPeers:
    """The short cut: requests to the broker itself go straight to `answer`, and there are no others."""

    def __init__(self, broker_id: int, answer: Callable[[Any], Awaitable[Any]]) -> None:
        self._broker_id = broker_id
        self._answer = answer

    async def send(self, broker_id: int, request: Any) -> Any:
        if broker_id != self._broker_id:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"broker {broker_id} is not known: broker {self._broker_id} runs alone",
            )
        return await self._answer(request)
