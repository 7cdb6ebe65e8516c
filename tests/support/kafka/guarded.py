"""Apache Kafka with its StandardAuthorizer and Barnabas with ours: the same ACLs, the same requests.

In Kafka a user of SASL/PLAIN asks, and an administrator, who is a super user, makes the ACLs. In Barnabas everybody
is ANONYMOUS, has the ACLs of that user, and they are put into the metadata as the controller does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from barnabas.cluster.deltas import AclsChanged
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages import acls, sasl, transactions
from barnabas.protocol.schema import Message
from barnabas.security.authz.acls import AclBinding, PatternType, Permission
from barnabas.security.authz.authorizer import Operation, ResourceType
from barnabas.testing import EmbeddedBroker
from tests.support.clients import RawConnection
from tests.support.kafka.broker import ApacheKafka
from tests.support.programs import free_port
from tests.support.waiting import until

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USER = "User:asking"
EVERYBODY = "User:ANONYMOUS"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_LOGIN = f'{_PLAIN} username="admin" password="admin" user_admin="admin" user_asking="asking";'
_OF_TOPICS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1",
              "share.coordinator.state.topic.num.partitions": "1"}  # fmt: skip


def logged_in(port: int, user: str) -> RawConnection:
    connection = RawConnection(port)
    connection.ask(sasl.SaslHandshakeRequest("PLAIN"), 1)
    answer: Any = connection.ask(sasl.SaslAuthenticateRequest(f"\0{user}\0{user}".encode()), 2)
    assert answer.error_code == 0, answer
    return connection


class GuardedKafka(ApacheKafka):
    """All clients must authenticate, controllers too: ANONYMOUS could not register a broker."""

    def __init__(self, data_dir: Path, settings: dict[str, str] | None = None) -> None:
        port, controller = free_port(), free_port()
        guarded = {
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": _LOGIN,
            "listener.name.controller.plain.sasl.jaas.config": _LOGIN,
            "authorizer.class.name": STANDARD,
            "super.users": "User:admin",
        }
        super().__init__(data_dir, port, "256m", {**guarded, **_OF_TOPICS, **(settings or {})})


class Guarded:
    """Both brokers, with one client each."""

    def __init__(self, kafka: GuardedKafka, broker: EmbeddedBroker) -> None:
        self.broker = broker
        self.admin = logged_in(kafka.port, "admin")
        self.theirs = logged_in(kafka.port, "asking")
        self.ours = RawConnection(broker.port)
        self._acls: frozenset[AclBinding] = frozenset()
        self._round = 0

    def close(self) -> None:
        for connection in (self.admin, self.theirs, self.ours):
            connection.close()

    def as_admin(self, message: Message, version: int) -> tuple[Any, Any]:
        """As an administrator, on both."""
        self.use(frozenset(), is_open=True)
        return self.admin.ask(message, version), self.ours.ask(message, version)

    def use(self, wanted: Iterable[AclBinding], *, is_open: bool = False) -> None:
        """Set these ACLs for the client's principal on both; `is_open` allows everything on ours."""
        wanted = frozenset(wanted)
        everything = {
            AclBinding(kind, "*", PatternType.LITERAL, EVERYBODY, "*", 2, Permission.ALLOW)
            for kind in ResourceType
        }
        self._use_ours(frozenset(everything) if is_open else frozenset(map(_for_everybody, wanted)))
        if wanted != self._acls:
            self._use_theirs(wanted)

    def _use_ours(self, wanted: frozenset[AclBinding]) -> None:
        broker = self.broker.broker

        async def submit() -> None:
            def decide(image: Any) -> Any:
                return [AclsChanged(tuple(image.acls - wanted), tuple(wanted - image.acls))], None

            await broker.controller.submit(decide)

        asyncio.run_coroutine_threadsafe(submit(), broker.loop).result(60)

    def _use_theirs(self, wanted: frozenset[AclBinding]) -> None:
        self._round += 1
        sign = AclBinding(
            ResourceType.TRANSACTIONAL_ID,
            f"sign-{self._round}",
            PatternType.LITERAL,
            USER,
            "*",
            Operation.DESCRIBE,
            Permission.ALLOW,
        )
        everything = acls.DeleteAclsFilter(1, None, PatternType.ANY, None, None, 1, 1)
        self.admin.ask(acls.DeleteAclsRequest([everything]), 3)
        rows = [acls.AclCreation(*map(_plain, _row(binding))) for binding in (*wanted, sign)]
        created: Any = self.admin.ask(acls.CreateAclsRequest(rows), 3)
        assert not any(result.error_code for result in created.results), created
        self._acls = wanted
        self._until_seen(sign.name)

    def _until_seen(self, transactional_id: str) -> None:
        """Kafka's broker learns of ACLs a moment after its controller."""
        request = transactions.DescribeTransactionsRequest([transactional_id])
        denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

        def is_denied() -> bool:
            answer: Any = self.theirs.ask(request, 0)
            return bool(answer.transaction_states[0].error_code == denied)

        until(lambda: not is_denied())


def _row(binding: AclBinding) -> tuple[Any, ...]:
    kind, name, pattern, principal, host, operation, permission = (
        getattr(binding, field) for field in binding.__struct_fields__
    )
    return kind, name, pattern, principal, host, operation, permission


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else int(value)


def _for_everybody(binding: AclBinding) -> AclBinding:
    kind, name, pattern, principal, host, operation, permission = _row(binding)
    ours = EVERYBODY if principal == USER else principal
    return AclBinding(kind, name, pattern, ours, host, operation, permission)
