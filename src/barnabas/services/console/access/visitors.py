"""Logged-in users: with roles of the console, or with their Kafka credentials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from barnabas.client.access.logins import KafkaUser, KafkaUsers
from barnabas.client.cluster import Client
from barnabas.client.errors import SecurityError
from barnabas.client.security.settings import Sasl, Security
from barnabas.security.authz.authorizer import Action, Operation, ResourceType
from barnabas.services.console.access.roles import Roles
from barnabas.services.console.errors import RefusedError
from barnabas.services.console.needs import ADMINISTER


@dataclass(frozen=True, slots=True)
class RoleVisitor:
    """The console's principal acts for this user; the user's roles decide."""

    name: str
    principals: tuple[str, ...]
    roles: Mapping[str, Roles]
    """By cluster."""
    has_session: bool = True

    async def may(self, cluster: str, action: Action) -> bool:
        return self.roles[cluster].allow(self.principals, action)

    async def allowed(
        self, cluster: str, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        roles = self.roles[cluster]
        return {
            name for name in names if roles.allow(self.principals, Action(operation, resource_type, name))
        }

    async def unmasks(self, cluster: str) -> bool:
        return await self.may(cluster, ADMINISTER)

    def client(self, cluster: str) -> Client | None:
        return None

    def security(self, cluster: str) -> Security | None:
        return None


@dataclass(frozen=True, slots=True)
class Door:
    """A cluster that users log in to with their Kafka credentials."""

    users: KafkaUsers
    security: Security
    """The console's own; a visitor's differs in who it is."""


@dataclass(slots=True)
class KafkaVisitor:
    """Connects with the user's credentials; the brokers decide."""

    name: str
    sasl: Sasl
    doors: Mapping[str, Door]
    has_session: bool = True
    _met: dict[str, KafkaUser] = field(default_factory=dict)

    async def enter(self, cluster: str) -> KafkaUser:
        """Log in to this cluster; raises SecurityError if its brokers reject the user."""
        if cluster not in self._met:
            self._met[cluster] = await self.doors[cluster].users.user(self.sasl)
        return self._met[cluster]

    async def may(self, cluster: str, action: Action) -> bool:
        if action == ADMINISTER:
            action = Action(Operation.ALTER, ResourceType.CLUSTER)
        return await (await self._known(cluster)).may(action)

    async def allowed(
        self, cluster: str, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        return await (await self._known(cluster)).allowed(operation, resource_type, names)

    async def unmasks(self, cluster: str) -> bool:
        return await self.may(cluster, ADMINISTER)

    def client(self, cluster: str) -> Client | None:
        if cluster not in self._met:
            raise stranger(self.name, cluster)  # never the console's own rights instead
        return self._met[cluster].client

    def security(self, cluster: str) -> Security | None:
        return replace(self.doors[cluster].security, sasl=self.sasl)

    async def _known(self, cluster: str) -> KafkaUser:
        try:
            return await self.enter(cluster)
        except SecurityError:
            raise stranger(self.name, cluster) from None


def stranger(name: str, cluster: str) -> RefusedError:
    return RefusedError(f"The brokers of {cluster} do not know {name}: log in with a name that they know")
