"""A user with exactly the rights that a test names; the console's client acts for the user."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.security.authz.authorizer import Action, Operation, ResourceType
from barnabas.services.console.routes import ConsoleMatch
from barnabas.services.console.users import AnonymousConsoleUser, ConsoleUser, Head


class Limited(AnonymousConsoleUser):
    name = "limited"

    def __init__(self) -> None:
        self.rights: set[Action] = set()

    async def allows(self, action: Action) -> bool:
        return action in self.rights

    async def allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        return {name for name in names if Action(operation, resource_type, name) in self.rights}


class OnlyOne:
    """An authenticator that accepts one user."""

    def __init__(self, user: Limited) -> None:
        self._user = user

    def check(self, head: Head) -> None:
        """Accept every user."""

    async def user(self, head: Head, match: ConsoleMatch) -> ConsoleUser:
        return self._user

    async def close(self) -> None:
        """Nothing is kept."""
