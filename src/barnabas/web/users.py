"""The user of a request and the user's rights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from barnabas.security.authz import Action, Operation, ResourceType


class CurrentUser(Protocol):
    @property
    def name(self) -> str: ...

    async def allows(self, action: Action) -> bool:
        """True if the user may perform the action."""
        ...

    async def allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        """Subset of the names on which the user may perform the operation."""
        ...


class AnonymousUser:
    """User of a service without authentication: has all rights."""

    name = "anyone"

    async def allows(self, action: Action) -> bool:
        return True

    async def allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        return set(names)


ANONYMOUS = AnonymousUser()
