"""The same requests about ACLs, quotas and SCRAM users to Apache Kafka and Barnabas must get the same responses.

Where Kafka answers with UNKNOWN_SERVER_ERROR, or does what it says it refuses, it is not asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.connection import BrokerConnection
from barnabas.common.retry import Deadline
from barnabas.network.requests import RequestSecurity
from barnabas.protocol.schema import Message, Struct
from barnabas.security.authz.authorizer import AllowAll
from barnabas.testing import EmbeddedBroker
from tests.handlers.security.questions import Question, acls, quotas, users
from tests.support.kafka.broker import ApacheKafka

pytestmark = pytest.mark.java

AUTHORIZING = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
READ_SECONDS = 10.0
QUESTIONS = [*acls(), *quotas(), *users()]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("kafka")
    with ApacheKafka(folder, heap="256m", settings=AUTHORIZING) as kafka:
        yield kafka.bootstrap_servers


def test_acls_quotas_and_users_are_answered_as_by_apache_kafka(kafka: str) -> None:
    with EmbeddedBroker() as broker:
        broker.broker.dispatcher.use(RequestSecurity(authorizer=AllowAll()))
        ours = asyncio.run(answers(broker.bootstrap_servers, QUESTIONS))
    expected = asyncio.run(answers(kafka, QUESTIONS, ours))
    for (request, version), their_answer, our_answer in zip(QUESTIONS, expected, ours, strict=True):
        assert our_answer == their_answer, f"{request!r} in version {version}"


async def answers(address: str, questions: list[Question], expected: Sequence[Any] = ()) -> list[Any]:
    """Answers in order. With `expected`, reads are repeated until they match: Kafka applies changes asynchronously."""
    host, _, port = address.rpartition(":")
    connection = await BrokerConnection.connect(host, int(port))
    try:
        found = []
        for position, (request, version) in enumerate(questions):
            deadline = Deadline(READ_SECONDS)
            answer = _comparable(request, await connection.send(request, version))
            while _is_read(request) and expected and answer != expected[position] and not deadline.passed:
                answer = _comparable(request, await connection.send(request, version))
            found.append(answer)
        return found
    finally:
        connection.close()


def _is_read(request: Message) -> bool:
    return request.NAME.startswith("Describe")


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
