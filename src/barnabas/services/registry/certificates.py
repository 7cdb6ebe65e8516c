"""Users authenticated by certificate, for clusters whose brokers authenticate clients by certificate.

Unlike a password, a client's certificate cannot be verified with a broker: only the client has the key. So the registry
reads the cluster's ACLs and decides as the brokers' authorizer does. It needs DESCRIBE and DESCRIBE_CONFIGS on the
cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from barnabas.client import Client, admin
from barnabas.client.access import REMEMBERED, describe_acls
from barnabas.client.security import ClientSecurity
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.security import USER, Principal
from barnabas.security.authz import AclFilter, Action, Operation, Policy, ResourceType, StandardAuthorizer
from barnabas.security.tls import MappingRules, NoRuleAppliesError

logger = rate_limited_logger(__name__)

BROKER = 4  # ConfigResource.Type.BROKER
_READ = ("super.users", "allow.everyone.if.no.acl.found", "authorizer.class.name")


class CertificateUsers:
    """Maps certificates to principals and authorizes them by ACLs, which are cached for a few seconds."""

    def __init__(self, bootstrap: str, security: ClientSecurity, mapping_rules: str) -> None:
        self._client = Client(bootstrap, client_id="schema-registry-acls", security=security)
        self._rules = MappingRules.parse(mapping_rules)
        self._authorizer: StandardAuthorizer | None = None  # None: brokers have no authorizer
        self._read_at: float | None = None

    async def close(self) -> None:
        await self._client.close()

    def principal(self, certificate: bytes | None) -> Principal | None:
        """None without a certificate, or if no mapping rule matches."""
        if certificate is None:
            return None
        from barnabas.security.tls import subject_of

        try:
            return Principal(USER, self._rules.name_of(subject_of(certificate)))
        except NoRuleAppliesError as error:
            logger.info("rejected a client certificate: %s", error)
            return None

    async def allows(self, principal: Principal, host: str, action: Action) -> bool:
        if self._read_at is None or time.monotonic() - self._read_at > REMEMBERED:
            self._authorizer = await self._read()
            self._read_at = time.monotonic()
        if self._authorizer is None:
            return True
        return self._authorizer.verdict(str(principal), host, action).is_allowed

    async def _read(self) -> StandardAuthorizer | None:
        try:
            acls = await describe_acls(self._client, AclFilter())
        except KafkaError as error:
            if error.code == ErrorCode.SECURITY_DISABLED:
                return None
            raise
        found = StandardAuthorizer(await self._policy())
        found.use(frozenset(acls))
        return found

    async def _policy(self) -> Policy:
        """Policy of the brokers; if it cannot be read, super users have only the rights granted by ACLs."""
        metadata = await self._client.refresh([])
        try:
            configs = await admin.describe_configs(self._client, BROKER, str(min(metadata.brokers)))
        except KafkaError as error:
            logger.warning("cannot read super.users (it needs DESCRIBE_CONFIGS on the cluster): %s", error)
            return Policy()
        values = {one.name: one.value or "" for one in configs if one.name in _READ}
        users = frozenset(name.strip() for name in values.get("super.users", "").split(";") if name.strip())
        return Policy(users, values.get("allow.everyone.if.no.acl.found") == "true")


class CertificateUser:
    """A client identified by its certificate, with the rights that ACLs grant to its principal."""

    def __init__(self, users: CertificateUsers, principal: Principal, host: str) -> None:
        self.name = principal.name
        self._users = users
        self._principal = principal
        self._host = host

    async def allows(self, action: Action) -> bool:
        return await self._users.allows(self._principal, self._host, action)

    async def allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        return {name for name in names if await self.allows(Action(operation, resource_type, name))}
