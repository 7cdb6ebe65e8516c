"""The same requests about ACLs, quotas and SCRAM users to Apache Kafka and to Barnabas: the answers must be the same.

Where Kafka answers with UNKNOWN_SERVER_ERROR, or does what it says it refuses, it is not asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.connection import BrokerConnection
from barnabas.network.requests.stages import RequestSecurity
from barnabas.protocol.schema import Message, Struct
from barnabas.security.authz.authorizer import AllowAll
from barnabas.testing import EmbeddedBroker
from tests.apache_kafka import ApacheKafka
from tests.handlers.security.questions import Question, acls, quotas, users

pytestmark = pytest.mark.java

AUTHORIZING = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
QUESTIONS = [*acls(), *quotas(), *users()]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    folder: Path = tmp_path_factory.mktemp("kafka")
    with ApacheKafka(folder, heap="256m", settings=AUTHORIZING) as kafka:
        yield asyncio.run(answers(kafka.bootstrap_servers, QUESTIONS))


def test_acls_quotas_and_users_are_answered_as_by_apache_kafka(theirs: list[Any]) -> None:
    with EmbeddedBroker() as broker:
        broker.broker.dispatcher.use(RequestSecurity(authorizer=AllowAll()))
        ours = asyncio.run(answers(broker.bootstrap_servers, QUESTIONS))
    for (request, version), their_answer, our_answer in zip(QUESTIONS, theirs, ours, strict=True):
        assert our_answer == their_answer, f"{request!r} in version {version}"


async def answers(address: str, questions: list[Question]) -> list[Any]:
    host, _, port = address.rpartition(":")
    connection = await BrokerConnection.connect(host, int(port))
    try:
        return [
            _comparable(request, await connection.send(request, version)) for request, version in questions
        ]
    finally:
        connection.close()


def _comparable(request: Message, answer: Message) -> Any:
    """Results of ACLs have the order of the request; other lists have none."""
    is_ordered = request.NAME in ("CreateAclsRequest", "DeleteAclsRequest")
    return comparable(answer, is_ordered=is_ordered)


def comparable(value: Any, *, is_ordered: bool = False) -> Any:
    if isinstance(value, Struct):
        fields = {field.name: getattr(value, field.name) for field in value.FIELDS}
        return {
            name: comparable(part, is_ordered=is_ordered and name in ("results", "filter_results"))
            for name, part in fields.items()
            if name != "throttle_time_ms"
        }
    if isinstance(value, list) and value and isinstance(value[0], Struct):
        parts = [comparable(item) for item in value]
        return parts if is_ordered else sorted(parts, key=repr)
    return value
