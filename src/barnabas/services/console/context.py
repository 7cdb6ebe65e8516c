"""Context of a page: the cluster, the user and the console's settings."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.client import Client
from barnabas.client.security import ClientSecurity
from barnabas.security.authz import Action, Operation, ResourceType
from barnabas.services.console.access.roles import NOTHING, Hidden, hidden_of
from barnabas.services.console.errors import RefusedError
from barnabas.services.console.needs import ADMINISTER
from barnabas.services.console.routes import ConsoleMatch
from barnabas.services.console.settings import ConsoleSettings
from barnabas.services.console.users import ConsoleUser, Head

if TYPE_CHECKING:
    from barnabas.services.console.clusters import Cluster
    from barnabas.services.console.routes import PageTable
    from barnabas.services.console.users import Authenticator


@dataclass(frozen=True, slots=True)
class RequestScope:
    settings: ConsoleSettings
    user: ConsoleUser
    """Bound to the current cluster."""
    clusters: dict[str, Cluster]
    table: PageTable
    current: Cluster | None = None
    """None on cluster-independent pages."""
    head: Head | None = None
    """The request, for the login."""
    gate: Authenticator | None = None
    audit: Auditing | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    """Additional response headers, such as a cookie."""

    @property
    def cluster(self) -> Cluster:
        assert self.current is not None, "only pages below /c/{cluster} have one"
        return self.current

    @property
    def client(self) -> Client:
        """The client that acts for the user."""
        return self.user.client() or self.cluster.client

    @property
    def security(self) -> ClientSecurity:
        """Credentials for additional connections, such as those of a search process."""
        return self.user.security() or self.cluster.settings.security

    async def hidden(self, topic: str) -> Hidden:
        """Mask of the topic for this user; masked parts cannot be searched, sorted, copied or exported either."""
        rules = self.settings.access.masks
        found = hidden_of(rules, self.cluster.name, topic)
        return NOTHING if not found or await self.user.unmasks() else found

    async def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return await self.user.allows(Action(operation, resource_type, name))

    async def demand(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Raise RefusedError if the user lacks this right."""
        action = Action(operation, resource_type, name)
        if not await self.user.allows(action):
            raise refusal(self.user, action)

    async def allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        return await self.user.allowed(operation, resource_type, names)

    def url(self, path: str = "/") -> str:
        """URL of a path below the cluster; path segments must be quoted already."""
        if self.current is None:
            return path
        return f"/c/{urllib.parse.quote(self.current.name, safe='')}{'' if path == '/' else path}"


def refusal(user: ConsoleUser, action: Action) -> RefusedError:
    kind = action.resource_type.name.lower().replace("_", " ")
    right = (
        f"{action.operation.name} on the {kind} {action.name}" if action != ADMINISTER else "the role admin"
    )
    return RefusedError(
        f"{user.name} may not do this: it needs {right}. "
        "Ask an administrator of the cluster or of the console's roles"
    )


# -- Audit log: written before a change, completed after it ---------------------------------------------


class Auditing(Protocol):
    def act(
        self, head: Head, context: RequestScope, match: ConsoleMatch, form: Any
    ) -> AbstractAsyncContextManager[None]:
        """Wraps one action. An action that cannot be recorded is not performed."""
        ...

    async def refused(self, head: Head, context: RequestScope, match: ConsoleMatch, action: Action) -> None:
        """Record that the user lacks a right."""
        ...
