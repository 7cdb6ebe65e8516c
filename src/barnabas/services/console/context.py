"""What a page gets: the cluster it is about, who asks, and how the console is set up."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol
from barnabas.services.console.visitor import Head
from barnabas.services.console.routes import Match
from barnabas.security.authz.authorizer import Action

import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.client.cluster import Client
from barnabas.client.security.settings import Security
from barnabas.services.console.access.roles import NOTHING, Hidden, hidden_of
from barnabas.services.console.errors import RefusedError
from barnabas.services.console.needs import ADMINISTER
from barnabas.services.console.settings import ConsoleSettings
from barnabas.services.console.visitor import Visitor
from barnabas.security.authz.authorizer import Action, Operation, ResourceType

if TYPE_CHECKING:
    from barnabas.services.console.clusters import Cluster
    from barnabas.services.console.visitor import Authenticator, Head
    from barnabas.services.console.routes import RouteTable




@dataclass(frozen=True, slots=True)
class Context:
    settings: ConsoleSettings
    visitor: Visitor
    clusters: dict[str, Cluster]
    table: RouteTable
    current: Cluster | None = None
    """None on pages of the console itself."""
    head: Head | None = None
    """The request, for the login."""
    gate: Authenticator | None = None
    audit: Auditing | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    """Of the answer, beside those that every answer has: a cookie."""

    @property
    def cluster(self) -> Cluster:
        assert self.current is not None, "only pages below /c/{cluster} have one"
        return self.current

    @property
    def client(self) -> Client:
        """The client that acts for the visitor."""
        return self.visitor.client(self.cluster.name) or self.cluster.client

    @property
    def security(self) -> Security:
        """How other connections, those of a search process, log in for the visitor."""
        return self.visitor.security(self.cluster.name) or self.cluster.settings.security

    async def hidden(self, topic: str) -> Hidden:
        """What this visitor may not see of the topic's records, nor search, sort, copy or export by."""
        rules = self.settings.access.masks
        found = hidden_of(rules, self.cluster.name, topic)
        return NOTHING if not found or await self.visitor.unmasks(self.cluster.name) else found

    async def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return await self.visitor.may(self.cluster.name, Action(operation, resource_type, name))

    async def demand(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """RefusedError without this right."""
        action = Action(operation, resource_type, name)
        if not await self.visitor.may(self.cluster.name, action):
            raise refusal(self.visitor, action)

    async def allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        return await self.visitor.allowed(self.cluster.name, operation, resource_type, names)

    def url(self, path: str = "/") -> str:
        """A path below the cluster, as links have it; its segments are quoted already."""
        if self.current is None:
            return path
        return f"/c/{urllib.parse.quote(self.current.name, safe='')}{'' if path == '/' else path}"


def refusal(visitor: Visitor, action: Action) -> RefusedError:
    kind = action.resource_type.name.lower().replace("_", " ")
    right = (
        f"{action.operation.name} on the {kind} {action.name}" if action != ADMINISTER else "the role admin"
    )
    return RefusedError(
        f"{visitor.name} may not do this: it needs {right}. "
        "Ask whoever administers the cluster or the console's roles"
    )



# -- Where changes are written down: before the act, and completed after it ----------------------------

class Auditing(Protocol):
    def act(self, head: Head, context: Context, match: Match, form: Any) -> AbstractAsyncContextManager[None]:
        """Around one action. An act that cannot be written down does not happen."""
        ...

    async def refused(self, head: Head, context: Context, match: Match, action: Action) -> None:
        """The visitor lacks a right."""
        ...
