"""Who asks, and what that person may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from barnabas.services.console.routes import Match

from barnabas.client.status import STATUS_TOPIC
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS
from barnabas.security.authz.acls import WILDCARD, AclBinding, allowing
from barnabas.security.authz.authorizer import CLUSTER_NAME, Operation, ResourceType

from collections.abc import Iterable
from typing import Protocol

from barnabas.client.cluster import Client
from barnabas.client.security.settings import Security
from barnabas.security.authz.authorizer import Action, Operation, ResourceType




# -- What a console itself must be allowed to do, so that it can show how a cluster stands -------------

_NEEDED = {
    (ResourceType.CLUSTER, CLUSTER_NAME): (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    (ResourceType.TOPIC, WILDCARD): (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    (ResourceType.GROUP, WILDCARD): (Operation.DESCRIBE,),
    (ResourceType.TRANSACTIONAL_ID, WILDCARD): (Operation.DESCRIBE,),
    (ResourceType.TOPIC, STATUS_TOPIC): (Operation.READ,),
    (ResourceType.TOPIC, CONSUMER_OFFSETS): (Operation.READ,),  # why groups were rebalanced
}


def needed_acls(user: str) -> list[AclBinding]:
    return allowing(user, _NEEDED)




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



# -- Who is let in. Every request passes here before anything else is looked at ------------------------

@dataclass(frozen=True, slots=True)
class Head:
    """What a gate looks at: the request without its body."""

    method: str
    path: str
    headers: Mapping[str, str]
    host: str
    """The client's address."""
    is_tls: bool


class Authenticator(Protocol):
    def check(self, head: Head) -> None:
        """RefusedError for a request that no page of ours has sent: a foreign Host, a form of another site."""
        ...

    async def visitor(self, head: Head, match: Match) -> Visitor:
        """UnauthorizedError if nobody is logged in and the route needs somebody."""
        ...

    async def close(self) -> None: ...
