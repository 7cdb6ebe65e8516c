"""Who is let in. Every request passes here before anything else is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from barnabas.services.console.routes import Match
from barnabas.services.console.visitor import Visitor


@dataclass(frozen=True, slots=True)
class Head:
    """What a gate looks at: the request without its body."""

    method: str
    path: str
    headers: Mapping[str, str]
    host: str
    """The client's address."""
    is_tls: bool


class Gate(Protocol):
    def check(self, head: Head) -> None:
        """RefusedError for a request that no page of ours has sent: a foreign Host, a form of another site."""
        ...

    async def visitor(self, head: Head, match: Match) -> Visitor:
        """UnauthorizedError if nobody is logged in and the route needs somebody."""
        ...

    async def close(self) -> None: ...
