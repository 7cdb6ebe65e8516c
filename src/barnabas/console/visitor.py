"""Who asks, and what that person may do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from barnabas.client.cluster import Client
from barnabas.security.authorizer import Action, Operation, ResourceType


class Visitor(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def unmasks(self) -> bool:
        """May see values that are masked for others."""
        ...

    async def may(self, cluster: str, action: Action) -> bool: ...

    async def allowed(
        self, cluster: str, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        """Those of the names with which the visitor may do this."""
        ...

    def client(self, cluster: str) -> Client | None:
        """The visitor's own connections; None: the console's act for the visitor."""
        ...


class Anyone:
    """Without login everybody who reaches the console may do what it may do."""

    name = "anyone"
    unmasks = True

    async def may(self, cluster: str, action: Action) -> bool:
        return True

    async def allowed(
        self, cluster: str, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        return set(names)

    def client(self, cluster: str) -> Client | None:
        return None
