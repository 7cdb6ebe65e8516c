"""The user of a request and the user's rights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from barnabas.client import Client
from barnabas.client.security import ClientSecurity
from barnabas.client.status import STATUS_TOPIC
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS
from barnabas.security.authz import CLUSTER_NAME, Action, Operation, ResourceType
from barnabas.security.authz.acls import WILDCARD, AclBinding, allowing
from barnabas.services.console.routes import ConsoleMatch
from barnabas.web import AnonymousUser, CurrentUser

# -- ACLs that the console's principal needs -------------------------------------------------------------

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


class ConsoleUser(CurrentUser, Protocol):
    """User of a request, with rights on one cluster (`on`)."""

    @property
    def has_session(self) -> bool:
        """True for a logged-in user, who can log out."""
        ...

    def on(self, cluster: str) -> ConsoleUser:
        """The same user on a cluster."""
        ...

    async def unmasks(self) -> bool:
        """True if masks do not apply to this user (`Context.hidden`)."""
        ...

    def client(self) -> Client | None:
        """The user's client; None: use the console's."""
        ...

    def security(self) -> ClientSecurity | None:
        """Credentials for further connections of the user; None: use the console's."""
        ...


class AnonymousConsoleUser(AnonymousUser):
    """User of a console without login: has all rights of the console; masks apply."""

    has_session = False

    def on(self, cluster: str) -> ConsoleUser:
        return self

    async def unmasks(self) -> bool:
        return False

    def client(self) -> Client | None:
        return None

    def security(self) -> ClientSecurity | None:
        return None


class UnauthenticatedUser(AnonymousConsoleUser):
    """Not logged in: may only see the login page."""

    name = "unauthenticated"

    async def allows(self, action: Action) -> bool:
        return False

    async def allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        return set()


# -- Authentication: the first check of every request ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Head:
    """The request without its body, for authentication."""

    method: str
    path: str
    headers: Mapping[str, str]
    host: str
    """The client's address."""
    is_tls: bool


class Authenticator(Protocol):
    def check(self, head: Head) -> None:
        """Raises RefusedError for a foreign Host or a form of another site."""
        ...

    async def user(self, head: Head, match: ConsoleMatch) -> ConsoleUser:
        """Raises UnauthorizedError if the route needs a login and there is none."""
        ...

    async def close(self) -> None: ...
