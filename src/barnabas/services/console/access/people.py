"""Identity providers behind the login: the console's own users and roles, or the brokers."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import msgspec

from barnabas.client import Client, SecurityError
from barnabas.client.access import KafkaUser, KafkaUsers, login_from, password_login
from barnabas.client.security import ClientSecurity, Mechanism, SaslSettings
from barnabas.config.setting import ConfigError
from barnabas.security.authn import Secret
from barnabas.security.authz import Action, Operation, ResourceType
from barnabas.services.console.access.oidc import Person
from barnabas.services.console.access.passwords import ApiTokens, Passwords
from barnabas.services.console.access.roles import Roles
from barnabas.services.console.errors import RefusedError, UnauthorizedError
from barnabas.services.console.needs import ADMINISTER
from barnabas.services.console.settings import ConsoleSettings
from barnabas.services.console.users import ConsoleUser

# -- Logged-in users: with roles of the console, or with their Kafka credentials -----------------------


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


_CLIENT_ID = "barnabas-console-user"
_WRONG = "The name or the password is wrong"


class UserIdentity(NamedTuple):
    """The user of a session."""

    name: str
    groups: tuple[str, ...] = ()
    sasl: SaslSettings | None = None
    proof: str = ""
    """Of users with roles: the digest of the password's hash, or the provider. The session ends when it changes."""


class _StoredIdentity(msgspec.Struct, array_like=True):
    name: str
    groups: tuple[str, ...]
    proof: str
    mechanism: str = ""
    password: str = ""
    token: str = ""


class IdentityCodec:
    """Writes identities of one kind of login, with their Kafka credentials; reads no others."""

    def __init__(self, *, with_sasl: bool) -> None:
        self._with_sasl = with_sasl
        self._decoder = msgspec.msgpack.Decoder(_StoredIdentity)

    def write(self, identity: UserIdentity) -> bytes:
        stored = _StoredIdentity(identity.name, identity.groups, identity.proof)
        if identity.sasl is not None:
            token = identity.sasl.token
            stored.mechanism, stored.password = identity.sasl.mechanism.value, identity.sasl.password.text
            stored.token = token.text if isinstance(token, Secret) else ""
        return msgspec.msgpack.encode(stored)

    def read(self, data: bytes) -> UserIdentity | None:
        try:
            stored = self._decoder.decode(data)
        except msgspec.MsgspecError:
            return None  # of another version
        if bool(stored.mechanism) is not self._with_sasl:
            return None
        return UserIdentity(stored.name, stored.groups, _sasl_of(stored), stored.proof)


def _sasl_of(stored: _StoredIdentity) -> SaslSettings | None:
    if not stored.mechanism:
        return None
    mechanism = Mechanism(stored.mechanism)
    if mechanism is Mechanism.OAUTHBEARER:
        return SaslSettings(mechanism, token=Secret(stored.token))
    return SaslSettings(mechanism, stored.name, Secret(stored.password))


class People(Protocol):
    """Resolves credentials to users; raises UnauthorizedError if they are wrong."""

    async def by_password(self, name: str, password: str) -> UserIdentity: ...

    async def by_provider(self, person: Person) -> UserIdentity: ...

    async def by_header(self, authorization: str, cluster: str | None) -> ConsoleUser: ...

    async def user(self, identity: UserIdentity, cluster: str | None) -> ConsoleUser:
        """`cluster` is the one of the current request."""
        ...

    async def forget(self, identity: UserIdentity) -> None: ...

    async def close(self) -> None: ...


class RolePeople:
    """Users with console passwords, users of an identity provider, and API tokens."""

    def __init__(self, settings: ConsoleSettings) -> None:
        access = settings.access
        self._passwords = Passwords(access.login.users)
        self._proofs = {name: _proof_of(str(each)) for name, each in access.login.users.items()}
        self._provider = "" if access.login.oidc is None else _proof_of(access.login.oidc.issuer)
        self._tokens = ApiTokens(access.tokens, time.time)
        self._roles: Mapping[str, Roles] = {
            each.name: Roles(each.name, access.grants, read_only=settings.read_only)
            for each in settings.clusters
        }

    async def by_password(self, name: str, password: str) -> UserIdentity:
        if not await self._passwords.accept(name, password):
            raise UnauthorizedError(_WRONG)
        return UserIdentity(name, proof=self._proofs[name])

    async def by_provider(self, person: Person) -> UserIdentity:
        return UserIdentity(person.name, person.groups, proof=self._provider)

    async def by_header(self, authorization: str, cluster: str | None) -> ConsoleUser:
        scheme, _, rest = authorization.partition(" ")
        token = self._tokens.find(rest.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise UnauthorizedError("The token is not known, or has expired")
        return RoleUser(token.name, (f"Token:{token.name}",), self._roles, has_session=False)

    async def user(self, identity: UserIdentity, cluster: str | None) -> ConsoleUser:
        if not identity.proof or identity.proof not in (self._proofs.get(identity.name), self._provider):
            raise UnauthorizedError("Your password has changed, or this login has ended; log in again")
        principals = (f"User:{identity.name}", *(f"Group:{each}" for each in identity.groups))
        return RoleUser(identity.name, principals, self._roles)

    async def forget(self, identity: UserIdentity) -> None:
        """Holds no connections per user."""

    async def close(self) -> None:
        """Holds no connections per user."""


def _proof_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class KafkaPeople:
    """Users that the brokers of a cluster authenticate."""

    def __init__(self, settings: ConsoleSettings) -> None:
        for each in settings.clusters:
            if each.security.sasl is None:
                raise ConfigError(
                    f"`login: kind: kafka` checks names and passwords with the brokers, and the cluster {each.name} "
                    "does not use SASL: give its `settings` a SASL login, or use `kind: service`"
                )
        self._logins = {
            each.name: ClusterLogins(KafkaUsers(each.bootstrap, each.security, _CLIENT_ID), each.security)
            for each in settings.clusters
        }

    async def by_password(self, name: str, password: str) -> UserIdentity:
        """Authenticate with the first cluster that accepts the password."""
        for logins in self._logins.values():
            try:
                sasl = password_login(name, password, logins.security)
                await logins.users.user(sasl)
            except SecurityError:
                continue
            return UserIdentity(name, sasl=sasl)
        raise UnauthorizedError(_WRONG)

    async def by_provider(self, person: Person) -> UserIdentity:
        """Authenticate to the brokers with the provider's access token (OAUTHBEARER)."""
        sasl = SaslSettings(Mechanism.OAUTHBEARER, token=person.access_token)
        for logins in self._logins.values():
            try:
                await logins.users.user(sasl)
            except SecurityError:
                continue
            return UserIdentity(person.name, sasl=sasl)
        raise UnauthorizedError("no broker accepts the token of the identity provider")

    async def by_header(self, authorization: str, cluster: str | None) -> ConsoleUser:
        for logins in self._logins.values():
            try:
                sasl = login_from(authorization, logins.security)
                await logins.users.user(sasl)
            except SecurityError:
                continue
            name = sasl.username or "a bearer of a token"
            return await self._user(UserIdentity(name, sasl=sasl), cluster, has_session=False)
        raise UnauthorizedError("The brokers do not know who this is")

    async def user(self, identity: UserIdentity, cluster: str | None) -> ConsoleUser:
        return await self._user(identity, cluster, has_session=True)

    async def _user(self, identity: UserIdentity, cluster: str | None, *, has_session: bool) -> ConsoleUser:
        assert identity.sasl is not None
        user = SaslUser(identity.name, identity.sasl, self._logins, has_session)
        if cluster in self._logins:
            try:
                await user.on(cluster).log_in()
            except SecurityError:
                if len(self._logins) == 1:
                    raise UnauthorizedError("The brokers do not know you any longer; log in again") from None
        return user

    async def forget(self, identity: UserIdentity) -> None:
        assert identity.sasl is not None
        for logins in self._logins.values():
            await logins.users.forget(identity.sasl)

    async def close(self) -> None:
        for logins in self._logins.values():
            await logins.users.close()
