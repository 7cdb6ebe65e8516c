"""Who asks, and what that user may do. A name and password, or a token, are tried on the brokers: theirs is the word.

A subject's rights are those of its topic (TopicNameStrategy): `orders-value` and `orders-key` are of `orders`.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.client.access.logins import KafkaUser, KafkaUsers, login_from
from barnabas.client.errors import ClientError, SecurityError
from barnabas.client.security.settings import Security
from barnabas.common.errors import KafkaError
from barnabas.services.registry import errors
from barnabas.services.registry.model import name_of
from barnabas.security.authz.authorizer import Action, Operation, ResourceType


def topic_of(subject: str) -> str:
    """Any other name than `TOPIC-key` and `TOPIC-value` stands for a topic of that name."""
    name = name_of(subject)
    for ending in ("-value", "-key"):
        if name.endswith(ending) and len(name) > len(ending):
            return name.removesuffix(ending)
    return name


class Visitor(Protocol):
    async def may(self, operation: Operation, subject: str) -> bool: ...

    async def may_with_cluster(self, operation: Operation) -> bool: ...

    async def readable(self, subjects: list[str]) -> list[str]:
        """Those that may be read, in their order."""
        ...


class Anyone:
    """Where brokers do not ask who somebody is, neither does the registry."""

    async def may(self, operation: Operation, subject: str) -> bool:
        return True

    async def may_with_cluster(self, operation: Operation) -> bool:
        return True

    async def readable(self, subjects: list[str]) -> list[str]:
        return subjects


class KnownUser:
    """A user that brokers know: what they allow it with a topic, it may with the topic's subjects."""

    def __init__(self, user: KafkaUser) -> None:
        self._user = user

    async def may(self, operation: Operation, subject: str) -> bool:
        return await self._user.may(Action(operation, ResourceType.TOPIC, topic_of(subject)))

    async def may_with_cluster(self, operation: Operation) -> bool:
        return await self._user.may(Action(operation, ResourceType.CLUSTER))

    async def readable(self, subjects: list[str]) -> list[str]:
        topics = set(map(topic_of, subjects))
        allowed = await self._user.allowed(Operation.READ, ResourceType.TOPIC, topics)
        return [subject for subject in subjects if topic_of(subject) in allowed]


class Access:
    """Turns an Authorization header into a visitor: 401 if the brokers do not believe it."""

    def __init__(self, bootstrap: str, security: Security) -> None:
        self._security = security
        self._users = KafkaUsers(bootstrap, security, "schema-registry-user")
        self._anyone = Anyone()

    @property
    def is_open(self) -> bool:
        return self._security.sasl is None

    async def close(self) -> None:
        await self._users.close()

    async def visitor(self, authorization: str) -> Visitor:
        if self.is_open:
            return self._anyone
        try:
            return KnownUser(await self._users.user(login_from(authorization, self._security)))
        except SecurityError:
            raise errors.unauthorized() from None
        except (ClientError, KafkaError) as error:
            raise errors.store_error(f"no broker says who this is: {error}") from error
