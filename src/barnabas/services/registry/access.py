"""Authentication and authorization of requests. The brokers verify names and passwords, and tokens.

Rights on a subject are those on its topic (TopicNameStrategy): `orders-value` and `orders-key` belong to `orders`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.client import ClientError, SecurityError
from barnabas.client.access import KafkaUsers, login_from
from barnabas.client.schemas.client import topic_of
from barnabas.client.security import ClientSecurity
from barnabas.common.errors import KafkaError
from barnabas.config.setting import ConfigError
from barnabas.security.authz import CLUSTER_NAME, Action, Operation, ResourceType
from barnabas.security.authz.acls import AclBinding, allowing
from barnabas.services.registry import errors
from barnabas.services.registry.certificates import CertificateUser, CertificateUsers
from barnabas.services.registry.leadership import GROUP
from barnabas.services.registry.topic import TOPIC, TRANSACTIONAL_ID
from barnabas.web import (
    ANONYMOUS,
    CurrentUser,
    has_foreign_origin,
    host_name,
    is_cross_site,
    is_loopback_host,
)

# -- ACLs of the registry's own principal; the rights of clients are in `api/routes` -------------------

_NEEDED = {
    (ResourceType.TOPIC, TOPIC): (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
    ),
    (ResourceType.GROUP, GROUP): (Operation.READ, Operation.DESCRIBE),
    (ResourceType.TRANSACTIONAL_ID, TRANSACTIONAL_ID): (Operation.WRITE, Operation.DESCRIBE),
    # For the check of other group members' principals, and for the authorization of certificates.
    (ResourceType.CLUSTER, CLUSTER_NAME): (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
}


def needed_acls(user: str) -> list[AclBinding]:
    return allowing(user, _NEEDED)


async def allows_subject(user: CurrentUser, operation: Operation, subject: str) -> bool:
    """True if the user may perform the operation on the subject's topic."""
    return await user.allows(Action(operation, ResourceType.TOPIC, topic_of(subject)))


async def allows_cluster(user: CurrentUser, operation: Operation) -> bool:
    return await user.allows(Action(operation, ResourceType.CLUSTER))


async def readable_subjects(user: CurrentUser, subjects: list[str]) -> list[str]:
    """Subjects that the user may read, in their order."""
    if user is ANONYMOUS:
        return subjects
    topics = await user.allowed(Operation.READ, ResourceType.TOPIC, set(map(topic_of, subjects)))
    return [subject for subject in subjects if topic_of(subject) in topics]


class Origins:
    """Rejects cross-site requests of browsers, from the headers alone.

    `local_names` is None unless the registry listens on loopback: then the Host header must be one of these names or a
    loopback name (DNS rebinding).
    """

    def __init__(self, local_names: frozenset[str] | None = None) -> None:
        self._local_names = local_names

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        if is_cross_site(method, headers) or has_foreign_origin(headers):
            raise errors.foreign_page("a request from another site was rejected")
        host = headers.get("host", "")
        if self._local_names is None or is_loopback_host(host) or host_name(host) in self._local_names:
            return
        raise errors.foreign_page(
            f"this registry listens on loopback, but the Host header is {host[:100]!r}: use 127.0.0.1, or start "
            "the registry with --advertised and the name that clients use"
        )


class OpenRegistryError(ConfigError):
    """Brokers authenticate clients by certificate, but the registry would not authenticate them."""

    def __init__(self) -> None:
        super().__init__(
            "the brokers authenticate clients by certificate; this registry would serve all clients with its rights: "
            "add --tls FILE with ssl.client.auth=required and ssl.truststore.location, or --open to allow every client "
            "to read and change all schemas"
        )


@dataclass(frozen=True, slots=True)
class Caller:
    """Origin and credentials of a request, known before its body is read."""

    authorization: str = ""
    certificate: bytes | None = None  # in DER
    host: str = ""
    is_forwarded: bool = False


class RegistryAccess:
    """Authenticates requests by credentials or by certificate, before the body is read."""

    def __init__(
        self,
        bootstrap: str,
        security: ClientSecurity,
        certificates: CertificateUsers | None = None,
        topic: str = TOPIC,
    ) -> None:
        self._security = security
        self._users = KafkaUsers(bootstrap, security, "schema-registry-user")
        self._certificates = certificates
        self._topic = topic

    @property
    def is_open(self) -> bool:
        return self._security.sasl is None and self._certificates is None

    async def close(self) -> None:
        await self._users.close()
        if self._certificates is not None:
            await self._certificates.close()

    async def user(self, caller: Caller) -> CurrentUser:
        """Raise 401 if the credentials are wrong."""
        if self.is_open:
            return ANONYMOUS
        try:
            if self._security.sasl is None:
                return await self._by_certificate(caller)
            return await self._users.user(login_from(caller.authorization, self._security))
        except SecurityError:
            raise errors.unauthorized() from None
        except (ClientError, KafkaError) as error:
            raise errors.store_error(f"cannot authenticate the client at a broker: {error}") from error

    async def _by_certificate(self, caller: Caller) -> CurrentUser:
        """A request forwarded by another registry carries that registry's certificate and is authorized already. A
        principal with WRITE on the topic is a registry."""
        assert self._certificates is not None
        principal = self._certificates.principal(caller.certificate)
        if principal is None:
            raise errors.unauthorized()
        user = CertificateUser(self._certificates, principal, caller.host)
        is_registry = caller.is_forwarded and await user.allows(
            Action(Operation.WRITE, ResourceType.TOPIC, self._topic)
        )
        return ANONYMOUS if is_registry else user
