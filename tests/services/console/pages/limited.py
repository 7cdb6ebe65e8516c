"""A visitor who has the rights that a test names, and no other; the console's own client acts for them."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.security.authz.authorizer import Action, Operation, ResourceType
from barnabas.services.console.routes import ConsoleMatch
from barnabas.services.console.visitor import Anyone, Head, Visitor


class Limited(Anyone):
    name = "limited"

    def __init__(self) -> None:
        self.rights: set[Action] = set()

    async def may(self, cluster: str, action: Action) -> bool:
        return action in self.rights

    async def allowed(
        self, cluster: str, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        return {name for name in names if Action(operation, resource_type, name) in self.rights}


class OnlyOne:
    """A gate that lets in one visitor."""

    def __init__(self, visitor: Limited) -> None:
        self._visitor = visitor

    def check(self, head: Head) -> None:
        """Everybody."""

    async def visitor(self, head: Head, match: ConsoleMatch) -> Visitor:
        return self._visitor

    async def close(self) -> None:
        """Nothing is kept."""
