"""Logged-in users: with roles of the console, or with their Kafka credentials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from barnabas.client import Client
from barnabas.client.access import KafkaUser, KafkaUsers
from barnabas.client.errors import SecurityError
from barnabas.client.security import ClientSecurity, SaslSettings
from barnabas.security.authz import Action, Operation, ResourceType
from barnabas.services.console.access.roles import Roles
from barnabas.services.console.errors import RefusedError
from barnabas.services.console.needs import ADMINISTER


@dataclass(frozen=True, slots=True)
class RoleUser:
    """The console's principal acts for this user; the user's roles decide."""

    name: str
    principals: tuple[str, ...]
    roles: Mapping[str, Roles]
    """By cluster."""
    has_session: bool = True
    cluster: str = ""

    def on(self, cluster: str) -> RoleUser:
        return replace(self, cluster=cluster)

    async def allows(self, action: Action) -> bool:
        return self.roles[self.cluster].allow(self.principals, action)

    async def allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        roles = self.roles[self.cluster]
        return {
            name for name in names if roles.allow(self.principals, Action(operation, resource_type, name))
        }

    async def unmasks(self) -> bool:
        return await self.allows(ADMINISTER)

    def client(self) -> Client | None:
        return None

    def security(self) -> ClientSecurity | None:
        return None


@dataclass(frozen=True, slots=True)
class ClusterLogins:
    """Logins of users to one cluster, with their Kafka credentials."""

    users: KafkaUsers
    security: ClientSecurity
    """Security settings of the console's client; a user's differ only in the credentials."""


@dataclass(slots=True)
class SaslUser:
    """Connects with the user's credentials; the brokers decide."""

    name: str
    sasl: SaslSettings
    logins: Mapping[str, ClusterLogins]
    """By cluster."""
    has_session: bool = True
    cluster: str = ""
    _users: dict[str, KafkaUser] = field(default_factory=dict)

    def on(self, cluster: str) -> SaslUser:
        return replace(self, cluster=cluster)

    async def log_in(self) -> KafkaUser:
        """Log in to the cluster; raises SecurityError if its brokers reject the user."""
        if self.cluster not in self._users:
            self._users[self.cluster] = await self.logins[self.cluster].users.user(self.sasl)
        return self._users[self.cluster]

    async def allows(self, action: Action) -> bool:
        if action == ADMINISTER:
            action = Action(Operation.ALTER, ResourceType.CLUSTER)
        return await (await self._kafka_user()).allows(action)

    async def allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        return await (await self._kafka_user()).allowed(operation, resource_type, names)

    async def unmasks(self) -> bool:
        return await self.allows(ADMINISTER)

    def client(self) -> Client | None:
        if self.cluster not in self._users:
            raise self._unknown()  # never the console's own rights instead
        return self._users[self.cluster].client

    def security(self) -> ClientSecurity | None:
        return replace(self.logins[self.cluster].security, sasl=self.sasl)

    async def _kafka_user(self) -> KafkaUser:
        try:
            return await self.log_in()
        except SecurityError:
            raise self._unknown() from None

    def _unknown(self) -> RefusedError:
        return RefusedError(
            f"The brokers of {self.cluster} do not know {self.name}: log in with a name that they know"
        )
