"""Users of a service in front of brokers: their names and passwords, or tokens, are tried on the brokers.

users = KafkaUsers(bootstrap, security, "schema-registry-user")
user = await users.user(login_from(authorization, security))
await user.may(Action(Operation.READ, ResourceType.TOPIC, "orders"))
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from barnabas.client.access.rights import allowed_names
from barnabas.client.cluster import Client
from barnabas.client.errors import AuthenticationError
from barnabas.client.security.settings import Mechanism, Sasl, Security
from barnabas.security.authz.authorizer import Action, Operation, ResourceType
from barnabas.security.authn.credentials import Secret

REMEMBERED = 5.0  # seconds for which a broker's word is good; so long a right that was taken away may last
MOST_USERS = 100  # connections of users that are kept
MOST_REMEMBERED = 10_000
LONGEST_CREDENTIAL = 16 * 1024
_WITH_PASSWORD = (Mechanism.PLAIN, Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)


@dataclass(slots=True)
class KafkaUser:
    """A user that brokers know, with a connection of its own and what they said of late."""

    client: Client
    _known: dict[Action, tuple[float, bool]] = field(default_factory=dict)

    async def may(self, action: Action) -> bool:
        return action.name in await self.allowed(action.operation, action.resource_type, [action.name])

    async def allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        """Those of the names with which this user may do this."""
        known = {name: self._remembered(Action(operation, resource_type, name)) for name in names}
        unknown = [name for name, allowed in known.items() if allowed is None]
        fresh = await allowed_names(self.client, operation, resource_type, unknown)
        for name in unknown:
            self._remember(Action(operation, resource_type, name), name in fresh)
        return fresh | {name for name, allowed in known.items() if allowed}

    def _remembered(self, action: Action) -> bool | None:
        moment, allowed = self._known.get(action, (0.0, False))
        return allowed if time.monotonic() - moment < REMEMBERED else None

    def _remember(self, action: Action, allowed: bool) -> None:
        if len(self._known) > MOST_REMEMBERED:
            self._known.clear()
        self._known[action] = (time.monotonic(), allowed)


class KafkaUsers:
    """Those who came last, by their credentials; each is believed for a moment only."""

    def __init__(self, bootstrap: str, security: Security, client_id: str) -> None:
        self._bootstrap = bootstrap
        self._security = security
        self._client_id = client_id
        self._users: dict[bytes, tuple[float, KafkaUser]] = {}

    async def close(self) -> None:
        for _, user in self._users.values():
            await user.client.close()
        self._users.clear()

    async def user(self, sasl: Sasl) -> KafkaUser:
        """SecurityError if the brokers do not believe it, ClientError if none can be asked."""
        key = _key(sasl)
        moment, user = self._users.get(key, (0.0, None))
        if user is None or time.monotonic() - moment > REMEMBERED:
            user = await self._verified(user, sasl)
            await self._keep(key, user)
        return user

    async def forget(self, sasl: Sasl) -> None:
        _, user = self._users.pop(_key(sasl), (0.0, None))
        if user is not None:
            await user.client.close()

    async def _verified(self, user: KafkaUser | None, sasl: Sasl) -> KafkaUser:
        """A fresh login: a password that was changed is not good for longer than what is remembered."""
        security = replace(self._security, sasl=sasl)
        client = Client(self._bootstrap, client_id=self._client_id, security=security)
        try:
            await client.any_connection()
        except BaseException:
            await client.close()
            raise
        if user is None:
            return KafkaUser(client)
        await client.close()
        return user

    async def _keep(self, key: bytes, user: KafkaUser) -> None:
        _, before = self._users.pop(key, (0.0, user))
        self._users[key] = (time.monotonic(), user)
        gone = [] if before is user else [before]
        while len(self._users) > MOST_USERS:
            gone.append(self._users.pop(next(iter(self._users)))[1])
        for one in gone:
            await one.client.close()


def login_from(authorization: str, own: Security) -> Sasl:
    """What an Authorization header says; AuthenticationError if it says nothing that can be tried."""
    scheme, _, rest = authorization.partition(" ")
    if len(authorization) > LONGEST_CREDENTIAL:
        raise AuthenticationError("the credential is too long")
    if scheme.lower() == "bearer" and rest.strip():
        return Sasl(Mechanism.OAUTHBEARER, token=Secret(rest.strip()))
    if scheme.lower() != "basic":
        raise AuthenticationError("a name and a password are needed, or a token")
    try:
        name, _, password = base64.b64decode(rest, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise AuthenticationError("the header Authorization cannot be read") from None
    return password_login(name, password, own)


def password_login(name: str, password: str, own: Security) -> Sasl:
    """By the service's own mechanism if it is one for passwords."""
    if not name:
        raise AuthenticationError("a name and a password are needed")
    mine = own.sasl.mechanism if own.sasl else Mechanism.PLAIN
    mechanism = mine if mine in _WITH_PASSWORD else Mechanism.SCRAM_SHA_512
    return Sasl(mechanism, username=name, password=Secret(password))


def _key(sasl: Sasl) -> bytes:
    token = sasl.token.text if isinstance(sasl.token, Secret) else ""
    parts = (sasl.mechanism, sasl.username, sasl.password.text, token)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).digest()
