"""Who asks, and what that user may do. A name and password, or a token, are tried on the brokers: theirs is the word.

A subject's rights are those of its topic (TopicNameStrategy): `orders-value` and `orders-key` are of `orders`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from dataclasses import dataclass, field, replace
from typing import Protocol

from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError, SecurityError
from barnabas.client.security.settings import Mechanism, Sasl, Security
from barnabas.errors import KafkaError
from barnabas.registry import errors
from barnabas.registry.model import name_of
from barnabas.registry.rights import allowed_topics, may_do_with_cluster
from barnabas.security.authorizer import Operation
from barnabas.security.secret import Secret

REMEMBERED = 5.0  # seconds for which a broker's word is good; so long a right that was taken away may last
MOST_VISITORS = 100  # connections of users that are kept
LONGEST_CREDENTIAL = 16 * 1024
_WITH_PASSWORD = (Mechanism.PLAIN, Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)


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


@dataclass(slots=True)
class KafkaUser:
    """A user that brokers know, with a connection of its own and what they said of late."""

    client: Client
    _known: dict[tuple[Operation, str | None], tuple[float, bool]] = field(default_factory=dict)

    async def may(self, operation: Operation, subject: str) -> bool:
        return topic_of(subject) in await self._allowed(operation, {topic_of(subject)})

    async def may_with_cluster(self, operation: Operation) -> bool:
        found = self._remembered(operation, None)
        if found is None:
            found = await may_do_with_cluster(self.client, operation)
            self._remember(operation, None, found)
        return found

    async def readable(self, subjects: list[str]) -> list[str]:
        allowed = await self._allowed(Operation.READ, set(map(topic_of, subjects)))
        return [subject for subject in subjects if topic_of(subject) in allowed]

    async def _allowed(self, operation: Operation, topics: set[str]) -> set[str]:
        known = {topic: self._remembered(operation, topic) for topic in topics}
        unknown = {topic for topic, allowed in known.items() if allowed is None}
        fresh = await allowed_topics(self.client, operation, unknown)
        for topic in unknown:
            self._remember(operation, topic, topic in fresh)
        return fresh | {topic for topic, allowed in known.items() if allowed}

    def _remembered(self, operation: Operation, topic: str | None) -> bool | None:
        moment, allowed = self._known.get((operation, topic), (0.0, False))
        return allowed if time.monotonic() - moment < REMEMBERED else None

    def _remember(self, operation: Operation, topic: str | None, allowed: bool) -> None:
        if len(self._known) > 10_000:
            self._known.clear()
        self._known[operation, topic] = (time.monotonic(), allowed)


class Access:
    """Turns an Authorization header into a visitor: 401 if the brokers do not believe it."""

    def __init__(self, bootstrap: str, security: Security) -> None:
        self._bootstrap = bootstrap
        self._security = security
        self._users: dict[bytes, tuple[float, KafkaUser]] = {}
        self._anyone = Anyone()

    @property
    def is_open(self) -> bool:
        return self._security.sasl is None

    async def close(self) -> None:
        for _, user in self._users.values():
            await user.client.close()
        self._users.clear()

    async def visitor(self, authorization: str) -> Visitor:
        if self.is_open:
            return self._anyone
        sasl = self._login(authorization)
        key = hashlib.sha256(authorization.encode("utf-8", "surrogateescape")).digest()
        moment, user = self._users.get(key, (0.0, None))
        if user is None or time.monotonic() - moment > REMEMBERED:
            user = await self._verified(user, sasl)
            await self._keep(key, user)
        return user

    async def _verified(self, user: KafkaUser | None, sasl: Sasl) -> KafkaUser:
        """A fresh login: a password that was changed is not good for longer than what is remembered."""
        security = replace(self._security, sasl=sasl)
        client = Client(self._bootstrap, client_id="schema-registry-user", security=security)
        try:
            await client.any_connection()
        except SecurityError:
            await client.close()
            raise errors.unauthorized() from None
        except (ClientError, KafkaError) as error:
            await client.close()
            raise errors.store_error(f"no broker says who this is: {error}") from error
        if user is None:
            return KafkaUser(client)
        await client.close()
        return user

    async def _keep(self, key: bytes, user: KafkaUser) -> None:
        _, before = self._users.pop(key, (0.0, user))
        self._users[key] = (time.monotonic(), user)
        gone = [] if before is user else [before]
        while len(self._users) > MOST_VISITORS:
            gone.append(self._users.pop(next(iter(self._users)))[1])
        for one in gone:
            await one.client.close()

    def _login(self, authorization: str) -> Sasl:
        scheme, _, rest = authorization.partition(" ")
        if len(authorization) > LONGEST_CREDENTIAL:
            raise errors.unauthorized()
        if scheme.lower() == "bearer" and rest.strip():
            return Sasl(Mechanism.OAUTHBEARER, token=Secret(rest.strip()))
        if scheme.lower() != "basic":
            raise errors.unauthorized()
        try:
            name, _, password = base64.b64decode(rest, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            raise errors.unauthorized() from None
        if not name:
            raise errors.unauthorized()
        return Sasl(self._mechanism(), username=name, password=Secret(password))

    def _mechanism(self) -> Mechanism:
        """For passwords: the registry's own if it is one for them."""
        own = self._security.sasl.mechanism if self._security.sasl else Mechanism.PLAIN
        return own if own in _WITH_PASSWORD else Mechanism.SCRAM_SHA_512
