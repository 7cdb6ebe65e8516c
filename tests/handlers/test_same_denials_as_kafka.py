"""The same requests with random ACLs to Apache Kafka and Barnabas must get the same responses.

What cannot be the same is left out before comparing: ids of producers and members, ports, folders, texts that only one
of them has. The order of elements is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.messages import metadata, offsets, topics, transactions
from barnabas.protocol.messages.share import AlterShareGroupOffsetsResponseTopic
from barnabas.protocol.schema import Struct
from barnabas.security.authz.acls import ALL_OPERATIONS, EVERYONE, AclBinding, PatternType, Permission
from barnabas.security.authz.authorizer import CLUSTER_NAME, Action, Operation, ResourceType
from barnabas.testing import EmbeddedBroker
from tests.handlers.acl_questions import (
    GROUPS,
    NOT_THERE,
    TOPICS,
    TRANSACTION,
    Ids,
    Question,
    deletions,
    questions,
)
from tests.support.builders.acls import is_allowed
from tests.support.kafka.guarded import STANDARD, USER, Guarded, GuardedKafka

LOCALHOST = "127.0.0.1"

pytestmark = pytest.mark.java

DIFFERENT_ANYWHERE = {
    "throttle_time_ms", "port", "cluster_id", "producer_id", "producer_epoch", "member_id", "client_instance_id",
    "subscription_id", "log_append_time_ms", "leader_epoch", "committed_leader_epoch", "current_leader_epoch",
    "host", "controller_id", "records", "aborted_transactions", "delta_temporality", "error_message", "configs",
    "log_dir", "total_bytes", "usable_bytes", "acknowledge_error_message",
}  # fmt: skip


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder: Path = tmp_path_factory.mktemp("guarded")
    with (
        GuardedKafka(folder) as kafka,
        EmbeddedBroker({"authorizer.class.name": STANDARD}) as broker,
    ):
        both = Guarded(kafka, broker)
        prepare(both)
        yield both
        both.close()


def prepare(both: Guarded) -> None:
    """Topics, a group with offsets, and coordinators that are there."""
    wanted = topics.CreateTopicsRequest([topics.CreatableTopic(name, 1, 1) for name in TOPICS], 30_000)
    for answer in both.as_admin(wanted, 7):
        assert not any(topic.error_code for topic in answer.topics)
    for key_type, key in ((0, GROUPS[0]), (1, TRANSACTION), (2, "readers.share:AAAAAAAAAAAAAAAAAAAAAA:0")):
        until_found(both, metadata.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]))
    until_initialized(both, transactions.InitProducerIdRequest(TRANSACTION, 60_000))
    partition = offsets.OffsetCommitRequestPartition(0, 5, committed_metadata="")
    rows = [offsets.OffsetCommitRequestTopic(name, partitions=[partition]) for name in TOPICS]
    for group in GROUPS:
        until_committed(both, offsets.OffsetCommitRequest(group, topics=rows))


def until_found(both: Guarded, request: Any) -> None:
    while any(answer.coordinators[0].error_code for answer in both.as_admin(request, 6)):
        pass


def until_initialized(both: Guarded, request: Any) -> None:
    while any(answer.error_code for answer in both.as_admin(request, 4)):
        pass


def until_committed(both: Guarded, request: Any) -> None:
    while any(
        topic.partitions[0].error_code for answer in both.as_admin(request, 8) for topic in answer.topics
    ):
        pass


def ids_of(connection: Any) -> Ids:
    answer: Any = connection.ask(metadata.MetadataRequest(None), 12)
    found = {topic.name: topic.topic_id for topic in answer.topics}
    return {name: found[name] for name in TOPICS} | {NOT_THERE: b"x" * 16}


topic_patterns = st.sampled_from(
    [(name, PatternType.LITERAL) for name in (*TOPICS, NOT_THERE, "*")]
    + [(name, PatternType.PREFIXED) for name in ("orders", "orders.", "p")]
)
group_patterns = st.sampled_from(
    [(name, PatternType.LITERAL) for name in (*GROUPS, "*", "readers.new")]
    + [(name, PatternType.PREFIXED) for name in ("readers", "readers.")]
)
principals = st.sampled_from((USER, USER, EVERYONE))
hosts = st.sampled_from(("*", "*", "*", "127.0.0.1", "10.9.8.7"))
permissions = st.sampled_from((Permission.ALLOW, Permission.ALLOW, Permission.ALLOW, Permission.DENY))


def binding(kind: ResourceType, patterns: Any, *operations: int) -> Any:
    def make(pattern: Any, principal: str, host: str, operation: int, permission: Permission) -> AclBinding:
        name, pattern_type = pattern
        return AclBinding(kind, name, pattern_type, principal, host, operation, permission)

    return st.builds(make, patterns, principals, hosts, st.sampled_from(operations), permissions)


O = Operation  # noqa: E741  (a table of operations)
bindings = st.one_of(
    binding(
        ResourceType.TOPIC, topic_patterns, O.READ, O.WRITE, O.CREATE, O.DELETE, O.ALTER, O.DESCRIBE,
        O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS, ALL_OPERATIONS,
    ),
    binding(
        ResourceType.GROUP, group_patterns, O.READ, O.DESCRIBE, O.DELETE, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS,
        ALL_OPERATIONS,
    ),
    binding(
        ResourceType.TRANSACTIONAL_ID, st.just((TRANSACTION, PatternType.LITERAL)), O.WRITE, O.DESCRIBE,
        O.TWO_PHASE_COMMIT, ALL_OPERATIONS,
    ),
    binding(
        ResourceType.CLUSTER, st.just((CLUSTER_NAME, PatternType.LITERAL)), O.CREATE, O.ALTER, O.DESCRIBE,
        O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS, O.IDEMPOTENT_WRITE, O.CLUSTER_ACTION, ALL_OPERATIONS,
    ),
)  # fmt: skip
acl_sets = st.frozensets(bindings, max_size=12)


class Comparison:
    """Sends requests to both, and reports differences."""

    def __init__(self, both: Guarded) -> None:
        self._both = both
        both.use(frozenset(), is_open=True)
        self._their_ids, self._our_ids = ids_of(both.admin), ids_of(both.ours)

    def differences(self, acls: frozenset[AclBinding], age: float) -> list[str]:
        self._both.use(acls)
        found = self._differences(questions(self._their_ids, age), questions(self._our_ids, age))
        if not may_delete(acls):
            found += self._differences(deletions(self._their_ids), deletions(self._our_ids))
        return found

    def _differences(self, expected: Iterator[Question], ours: Iterator[Question]) -> list[str]:
        requested = zip(expected, ours, strict=True)
        return [found for their, our in requested if (found := self._compare(their, our))]

    def _compare(self, expected: Question, ours: Question) -> str:
        their_answer = comparable(self._both.theirs.ask(*expected), names_by(self._their_ids))
        our_answer = comparable(self._both.ours.ask(*ours), names_by(self._our_ids))
        found = list(unlike(their_answer, our_answer))
        return f"\n{ours[0].NAME} {ours[1]}: " + "; ".join(found) if found else ""


def may_delete(acls: frozenset[AclBinding]) -> bool:
    delete = Operation.DELETE
    return is_allowed(acls, USER, LOCALHOST, Action(delete, ResourceType.TOPIC, TOPICS[0])) or is_allowed(
        acls, USER, LOCALHOST, Action(delete, ResourceType.CLUSTER)
    )


def names_by(ids: Ids) -> dict[bytes, str]:
    return {topic_id: name for name, topic_id in ids.items()}


def unlike(expected: Any, ours: Any, where: str = "") -> Iterator[str]:
    """In words, where two answers differ."""
    if isinstance(expected, dict) and isinstance(ours, dict):
        for name in expected:
            yield from unlike(expected[name], ours.get(name), f"{where}.{name}")
    elif isinstance(expected, list) and isinstance(ours, list) and len(expected) == len(ours):
        for index, (their_item, our_item) in enumerate(zip(expected, ours, strict=True)):
            yield from unlike(their_item, our_item, f"{where}[{index}]")
    elif expected != ours:
        yield f"{where} is {expected!r} in Kafka, {ours!r} here"


def comparable(value: Any, names: dict[bytes, str]) -> Any:
    if isinstance(value, Struct):
        fields = {field.name: getattr(value, field.name) for field in value.FIELDS}
        if isinstance(value, AlterShareGroupOffsetsResponseTopic):
            fields.pop("topic_id")  # Kafka reveals it to clients that may not see the topic
        return {
            name: names.get(part, bool(part.strip(b"\0"))) if name == "topic_id" else comparable(part, names)
            for name, part in fields.items()
            if name not in DIFFERENT_ANYWHERE
        }
    if isinstance(value, list) and value and isinstance(value[0], Struct):
        return sorted((comparable(item, names) for item in value), key=repr)
    return value


@pytest.fixture(scope="module")
def comparison(guarded: Guarded) -> Comparison:
    return Comparison(guarded)


ages = st.sampled_from((0.0, 0.5, 1.0))


def test_user_without_rights_gets_the_same_answers(comparison: Comparison) -> None:
    for age in (0.0, 0.5, 1.0):
        assert not "".join(comparison.differences(frozenset(), age))


@given(acl_sets, ages)
@settings(max_examples=40, derandomize=True, database=None)
def test_random_acls_lead_to_the_same_answers(
    comparison: Comparison, acls: frozenset[AclBinding], age: float
) -> None:
    assert not "".join(comparison.differences(acls, age))


@pytest.mark.extended
@pytest.mark.timeout(3600)  # 2,000 sets take seven minutes on an idle machine
@given(acl_sets, ages)
@settings(max_examples=2000, database=None)
def test_thousands_of_random_acls_lead_to_the_same_answers(
    comparison: Comparison, acls: frozenset[AclBinding], age: float
) -> None:
    assert not "".join(comparison.differences(acls, age))
