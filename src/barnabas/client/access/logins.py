"""Authenticates users of a service against the brokers, with a password or a token.

users = KafkaUsers(bootstrap, security, "schema-registry-user")
user = await users.user(login_from(authorization, security))
await user.allows(Action(Operation.READ, ResourceType.TOPIC, "orders"))
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from barnabas.client.access import probes
from barnabas.client.cluster import Client
from barnabas.client.errors import AuthenticationError
from barnabas.client.security.settings import ClientSecurity, Mechanism, SaslSettings
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.security.authn import Secret
from barnabas.security.authz import CLUSTER_NAME, DENIED, Action, Operation, ResourceType

# -- Rights of a user as the brokers report them, without a copy of ACLs, super users or group rules ---

_WITHOUT_DESCRIBE = frozenset({Operation.CREATE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})


async def allowed_names(
    client: Client, operation: Operation, resource_type: ResourceType, names: Iterable[str]
) -> set[str]:
    """Those of the names with which the client's user may do this."""
    wanted = sorted(set(names))
    if not wanted:
        return set()
    if resource_type is ResourceType.CLUSTER:
        return {CLUSTER_NAME} if await may_do_with_cluster(client, operation) else set()
    if resource_type is ResourceType.TOPIC:
        return await allowed_topics(client, operation, wanted)
    return await _probe(client, operation, resource_type, wanted)


async def may_do_with_cluster(client: Client, operation: Operation) -> bool:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response: DescribeClusterResponse = await client.send_to_any(request)
    if _has(response.cluster_authorized_operations, operation):
        return True
    # Without DESCRIBE on the cluster, brokers do not report authorized operations.
    return bool(await _probe(client, operation, ResourceType.CLUSTER, [CLUSTER_NAME]))


async def allowed_topics(client: Client, operation: Operation, topics: Iterable[str]) -> set[str]:
    """Those of the names with which the client's user may do this."""
    wanted = sorted(set(topics))
    if not wanted:
        return set()
    if operation is Operation.CREATE and await may_do_with_cluster(client, operation):
        return set(wanted)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in wanted],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    response: MetadataResponse = await client.send_to_any(request)
    allowed, unknown, silent = set(), set(), set()
    for topic in response.topics:
        name = topic.name or ""
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            unknown.add(name)
        elif topic.error_code:
            silent.add(name)
        elif _has(topic.topic_authorized_operations, operation):
            allowed.add(name)
    if operation is Operation.DESCRIBE:
        return allowed | unknown  # a denied user gets an authorization error, not UNKNOWN_TOPIC
    # Operations that do not imply DESCRIBE may be allowed without it.
    untold = unknown | (silent if operation in _WITHOUT_DESCRIBE else set())
    return allowed | await _probe(client, operation, ResourceType.TOPIC, sorted(untold))


def _has(bits: int, operation: Operation) -> bool:
    return bits >= 0 and bool(bits & (1 << operation))


async def _probe(
    client: Client, operation: Operation, resource_type: ResourceType, names: list[str]
) -> set[str]:
    """Names for which a broker accepts a request that requires the right."""
    if not names:
        return set()
    denied = DENIED[resource_type]
    connection = await client.any_connection()
    allowed: set[str] = set()
    for message in probes.messages(operation, resource_type, names):
        version = probes.version(message, connection.version_for(type(message)))
        response = await connection.send(message, version)
        allowed |= {name for name, code in probes.codes(message, response) if code != denied}
    return allowed


REMEMBERED = 5.0  # seconds for which decisions are cached: a revoked right may last that long
MAX_USERS = 100  # cached user connections
MAX_REMEMBERED = 10_000
MAX_CREDENTIAL = 16 * 1024
_WITH_PASSWORD = (Mechanism.PLAIN, Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)


@dataclass(slots=True)
class KafkaUser:
    """Authenticated user with a separate connection and cached decisions."""

    name: str
    client: Client
    _known: dict[Action, tuple[float, bool]] = field(default_factory=dict)

    async def allows(self, action: Action) -> bool:
        return action.name in await self.allowed(action.operation, action.resource_type, [action.name])

    async def allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        """Names on which this user is allowed the operation."""
        known = {name: self._remembered(Action(operation, resource_type, name)) for name in names}
        unknown = [name for name, allowed in known.items() if allowed is None]
        fresh = await allowed_names(self.client, operation, resource_type, unknown)
        for name in unknown:
            self._remember(Action(operation, resource_type, name), name in fresh)
        return fresh | {name for name, allowed in known.items() if allowed}

    def _remembered(self, action: Action) -> bool | None:
        timestamp, allowed = self._known.get(action, (0.0, False))
        return allowed if time.monotonic() - timestamp < REMEMBERED else None

    def _remember(self, action: Action, allowed: bool) -> None:
        if len(self._known) > MAX_REMEMBERED:
            self._known.clear()
        self._known[action] = (time.monotonic(), allowed)


class KafkaUsers:
    """Cache of recent users by credential; entries expire after REMEMBERED seconds."""

    def __init__(self, bootstrap: str, security: ClientSecurity, client_id: str) -> None:
        self._bootstrap = bootstrap
        self._security = security
        self._client_id = client_id
        self._users: dict[bytes, tuple[float, KafkaUser]] = {}

    async def close(self) -> None:
        for _, user in self._users.values():
            await user.client.close()
        self._users.clear()

    async def user(self, sasl: SaslSettings) -> KafkaUser:
        """SecurityError if authentication fails, ClientError if no broker is reachable."""
        key = _key(sasl)
        timestamp, user = self._users.get(key, (0.0, None))
        if user is None or time.monotonic() - timestamp > REMEMBERED:
            user = await self._verified(user, sasl)
            await self._keep(key, user)
        return user

    async def forget(self, sasl: SaslSettings) -> None:
        _, user = self._users.pop(_key(sasl), (0.0, None))
        if user is not None:
            await user.client.close()

    async def _verified(self, user: KafkaUser | None, sasl: SaslSettings) -> KafkaUser:
        """Log in again, so that a changed password is rejected once the cache entry expires."""
        security = replace(self._security, sasl=sasl)
        client = Client(self._bootstrap, client_id=self._client_id, security=security)
        try:
            await client.any_connection()
        except BaseException:
            await client.close()
            raise
        if user is None:
            return KafkaUser(sasl.username, client)
        await client.close()
        return user

    async def _keep(self, key: bytes, user: KafkaUser) -> None:
        _, before = self._users.pop(key, (0.0, user))
        self._users[key] = (time.monotonic(), user)
        removed = [] if before is user else [before]
        while len(self._users) > MAX_USERS:
            removed.append(self._users.pop(next(iter(self._users)))[1])
        for one in removed:
            await one.client.close()


def login_from(authorization: str, own: ClientSecurity) -> SaslSettings:
    """Credentials of an Authorization header; AuthenticationError if it has none."""
    scheme, _, rest = authorization.partition(" ")
    if len(authorization) > MAX_CREDENTIAL:
        raise AuthenticationError("the credential is too long")
    if scheme.lower() == "bearer" and rest.strip():
        return SaslSettings(Mechanism.OAUTHBEARER, token=Secret(rest.strip()))
    if scheme.lower() != "basic":
        raise AuthenticationError("user name and password, or a token, are required")
    try:
        name, _, password = base64.b64decode(rest, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise AuthenticationError("invalid Authorization header") from None
    return password_login(name, password, own)


def password_login(name: str, password: str, own: ClientSecurity) -> SaslSettings:
    """Use the service's mechanism if it is password-based."""
    if not name:
        raise AuthenticationError("user name and password are required")
    mine = own.sasl.mechanism if own.sasl else Mechanism.PLAIN
    mechanism = mine if mine in _WITH_PASSWORD else Mechanism.SCRAM_SHA_512
    return SaslSettings(mechanism, username=name, password=Secret(password))


def _key(sasl: SaslSettings) -> bytes:
    token = sasl.token.text if isinstance(sasl.token, Secret) else ""
    parts = (sasl.mechanism, sasl.username, sasl.password.text, token)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).digest()
