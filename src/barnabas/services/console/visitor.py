"""Who asks, and what that person may do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from barnabas.client.cluster import Client
from barnabas.client.security.settings import Security
from barnabas.security.authz.authorizer import Action, Operation, ResourceType


class Visitor(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def has_session(self) -> bool:
        """Is somebody logged in who can log out?"""
        ...

    async def may(self, cluster: str, action: Action) -> bool: ...

    async def allowed(
        self, cluster: str, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        """Those of the names with which the visitor may do this."""
        ...

    async def unmasks(self, cluster: str) -> bool:
        """May see what is masked for others (`Context.hidden`)."""
        ...

    def client(self, cluster: str) -> Client | None:
        """The visitor's own connections; None: the console's act for the visitor."""
        ...

    def security(self, cluster: str) -> Security | None:
        """How other connections log in as the visitor; None: as the console."""
        ...


class Anyone:
    """Without login everybody who reaches the console may do what it may do. What is masked is masked for everybody."""

    name = "anyone"
    has_session = False

    async def may(self, cluster: str, action: Action) -> bool:
        return True

    async def allowed(
        self, cluster: str, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        return set(names)

    async def unmasks(self, cluster: str) -> bool:
        return False

    def client(self, cluster: str) -> Client | None:
        return None

    def security(self, cluster: str) -> Security | None:
        return None


class Nobody(Anyone):
    """Not logged in: sees the login, and nothing else."""

    name = "nobody"

    async def may(self, cluster: str, action: Action) -> bool:
        return False

    async def allowed(
        self, cluster: str, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        return set()
