"""Every served API is authorized: one request each to a broker whose authorizer denies it.

A key without a question fails the test.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from barnabas.broker.broker import Broker
from barnabas.common.errors import ErrorCode
from barnabas.handlers.authorization import RULES
from barnabas.handlers.table import HANDLERS
from barnabas.network.requests.rules import OPEN, RequestSecurity
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages import (
    consumer,
    fetch,
    metadata,
    offsets,
    share,
    streams,
    topics,
    transactions,
)
from barnabas.protocol.messages.acls import CreateAclsResponse, DeleteAclsResponse
from barnabas.protocol.messages.quotas import EntityData
from barnabas.protocol.schema import Message, Struct
from barnabas.security.authz.authorizer import Action, Decisions, Operation, ResourceType
from barnabas.security.context import RequestContext
from barnabas.share.sessions import SessionKey
from barnabas.testing import EmbeddedBroker
from tests.handlers.questions import (
    EVE,
    GROUP,
    NO_TOPIC,
    OTHER,
    PRODUCER,
    QUESTIONS,
    SECRET,
    TOPIC,
    TRANSACTION,
    fetched,
    found,
    produced,
    topic_id,
)
from tests.support.clients import RawConnection, frame_of
from tests.support.server import brokers_let_in


class Denying:
    """Allows only the actions named by a test."""

    def __init__(self, *allowed: Action) -> None:
        self._allowed = set(allowed)

    def decisions(self, context: RequestContext) -> Decisions:
        return self

    def __getitem__(self, action: Action) -> bool:
        return action in self._allowed

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        return any(action[:2] == (operation, resource_type) for action in self._allowed)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        running.create_topic(TOPIC)
        running.create_topic(OTHER)
        yield running


@contextmanager
def only(broker: EmbeddedBroker, *allowed: Action) -> Iterator[None]:
    """Deny all other actions meanwhile."""
    broker.broker.dispatcher.use(RequestSecurity(authorizer=Denying(*allowed)))
    try:
        yield
    finally:
        broker.broker.dispatcher.use(OPEN)


SERVED = {ApiKey(handler.request_class.api_key): handler for handler in HANDLERS}


def errors_in(answer: Struct) -> set[int]:
    """All error codes of a response."""
    codes: set[int] = set()
    for field in answer.FIELDS:
        value: Any = getattr(answer, field.name)
        if field.name in ("error_code", "partition_error_code"):
            codes.add(value)
        elif isinstance(value, list):
            codes |= {code for item in value if isinstance(item, Struct) for code in errors_in(item)}
    return codes - {ErrorCode.NONE}


def names_what_was_asked(broker: Broker, answer: Any) -> bool:
    """Every element with an error names its resource; those about ACLs have the order of the request."""
    if isinstance(answer, CreateAclsResponse | DeleteAclsResponse):
        return True
    known = (
        TOPIC,
        topic_id(broker),
        GROUP,
        TRANSACTION,
        "new",
        "1",
        PRODUCER,
        EVE,
        [EntityData("user", EVE)],
    )
    elements = [
        item
        for field in answer.FIELDS
        if isinstance(value := getattr(answer, field.name), list)
        for item in value
        if isinstance(item, Struct) and errors_in(item)
    ]
    return all(any(getattr(item, f.name) in known for f in item.FIELDS) for item in elements)


def state_of(broker: Broker) -> tuple[Any, ...]:
    """State that a request could change: metadata and all logs."""
    ends = {
        (partition.topic, partition.index): (
            partition.log.log_start_offset,
            partition.log.log_end_offset,
        )
        for partition in broker.replicas
    }
    return broker.image, ends


def test_every_api_that_is_served_has_a_rule_and_a_question() -> None:
    assert SERVED.keys() <= RULES.keys()
    assert SERVED.keys() == QUESTIONS.keys() | {ApiKey.ENVELOPE} & SERVED.keys()


@pytest.mark.parametrize("key", QUESTIONS, ids=lambda key: key.name)
def test_fully_denied_user_gets_kafkas_errors_and_nothing_changes(
    broker: EmbeddedBroker, key: ApiKey
) -> None:
    make, expected = QUESTIONS[key]
    handler, before = SERVED[key], state_of(broker.broker)
    with only(broker), brokers_let_in(broker), RawConnection(broker.port, timeout=60) as connection:
        for version in range(handler.min_version, handler.max_version + 1):
            answer = connection.ask(make(broker.broker, version), version)
            can_tell = key is not ApiKey.DESCRIBE_LOG_DIRS or version >= 3
            assert errors_in(answer) <= set(expected or ()), version
            assert bool(errors_in(answer)) == (expected is not None and can_tell), version
            assert SECRET.decode() not in repr(answer)
            assert names_what_was_asked(broker.broker, answer)
    assert state_of(broker.broker) == before


def ask(broker: EmbeddedBroker, request: Message, version: int) -> Any:
    with RawConnection(broker.port, timeout=60) as connection:
        return connection.ask(request, version)


def allowed(operation: Operation, *names: str) -> list[Action]:
    return [Action(operation, ResourceType.TOPIC, name) for name in names]


READ_GROUP = Action(Operation.READ, ResourceType.GROUP, GROUP)


def test_allowed_part_of_a_produce_request_is_appended(broker: EmbeddedBroker) -> None:
    log = broker.broker.replicas.by_name[OTHER][0].log
    guarded = broker.broker.replicas.by_name[TOPIC][0].log
    for version in (9, 13):
        ends = log.log_end_offset, guarded.log_end_offset
        with only(broker, *allowed(Operation.WRITE, OTHER)):
            answer = ask(broker, produced(broker.broker, version, TOPIC, OTHER), version)
        results = {
            topic.name or broker.broker.image.topic_names_by_id[topic.topic_id]: topic.partition_responses[0]
            for topic in answer.responses
        }
        assert results[OTHER].error_code == ErrorCode.NONE
        assert (results[TOPIC].error_code, results[TOPIC].base_offset) == (NO_TOPIC, -1)
        assert (log.log_end_offset, guarded.log_end_offset) == (ends[0] + 1, ends[1])


def test_a_denied_produce_request_without_an_answer_closes_the_connection(broker: EmbeddedBroker) -> None:
    with only(broker), RawConnection(broker.port) as connection:
        connection.send(frame_of(produced(broker.broker, 9, acks=0), 9))
        assert connection.receive() is None


def test_allowed_part_of_a_produce_request_with_acks_0_is_appended_before_the_connection_is_closed(
    broker: EmbeddedBroker,
) -> None:
    log = broker.broker.replicas.by_name[OTHER][0].log
    guarded = broker.broker.replicas.by_name[TOPIC][0].log
    ends = log.log_end_offset, guarded.log_end_offset
    with only(broker, *allowed(Operation.WRITE, OTHER)), RawConnection(broker.port) as connection:
        connection.send(frame_of(produced(broker.broker, 9, TOPIC, OTHER, acks=0), 9))
        assert connection.receive() is None
    assert (log.log_end_offset, guarded.log_end_offset) == (ends[0] + 1, ends[1])


def test_fetch_session_repeats_denied_partitions_in_every_response(broker: EmbeddedBroker) -> None:
    ask(broker, produced(broker.broker, 9, TOPIC, OTHER), 9)
    request = fetched(broker.broker, 17, TOPIC, OTHER)
    request.session_epoch = 0
    with RawConnection(broker.port) as connection:
        with only(broker, *allowed(Operation.READ, OTHER)):
            first: Any = connection.ask(request, 17)
            assert errors_in(first) == {NO_TOPIC}
            assert sum(bool(topic.partitions[0].records) for topic in first.responses) == 1
            again = fetch.FetchRequest(max_wait_ms=0, session_id=first.session_id, session_epoch=1)
            assert errors_in(connection.ask(again, 17)) == {NO_TOPIC}
        with only(broker):  # allowed at the start of the session, denied now
            again = fetch.FetchRequest(max_wait_ms=0, session_id=first.session_id, session_epoch=2)
            answer: Any = connection.ask(again, 17)
            assert not any(topic.partitions[0].records for topic in answer.responses)


@pytest.mark.parametrize("version", [4, 14, 15, 18])
def test_replica_without_the_right_gets_an_error_for_each_partition(
    broker: EmbeddedBroker, version: int
) -> None:
    request = fetched(broker.broker, version)
    if version >= 15:
        request.replica_state = fetch.ReplicaState(broker.broker.node_id, broker.broker.broker_epoch)
    else:
        request.replica_id = broker.broker.node_id
    if version < 7:
        request.session_epoch = fetch.FetchRequest().session_epoch
    with only(broker, *allowed(Operation.READ, TOPIC)), brokers_let_in(broker):
        answer = ask(broker, request, version)
    assert answer.error_code == ErrorCode.NONE
    assert errors_in(answer) == {NO_TOPIC}
    assert not answer.responses[0].partitions[0].records


@pytest.mark.parametrize("version", [0, 1, 9, 12])
def test_topics_that_may_not_be_described_are_left_out_of_all(broker: EmbeddedBroker, version: int) -> None:
    with only(broker, *allowed(Operation.DESCRIBE, OTHER)):
        everything = metadata.MetadataRequest(None if version else [])
        answer = ask(broker, everything, version)
        assert [topic.name for topic in answer.topics] == [OTHER]
        assert answer.brokers
        pages = ask(broker, metadata.DescribeTopicPartitionsRequest(), 0)
        assert [topic.name for topic in pages.topics] == [OTHER]


def test_metadata_of_a_denied_topic_hides_its_id(broker: EmbeddedBroker) -> None:
    names = [metadata.MetadataRequestTopic(name=name) for name in (TOPIC, OTHER)]
    with only(broker, *allowed(Operation.DESCRIBE, OTHER)):
        answer = ask(broker, metadata.MetadataRequest(names), 12)
    by_name = {topic.name: topic for topic in answer.topics}
    assert (by_name[TOPIC].error_code, by_name[TOPIC].topic_id) == (NO_TOPIC, bytes(16))
    assert by_name[TOPIC].partitions == []
    assert by_name[OTHER].topic_id == topic_id(broker.broker, OTHER)


def test_metadata_creates_no_topic_without_the_right(broker: EmbeddedBroker) -> None:
    wanted = metadata.MetadataRequest([metadata.MetadataRequestTopic(name="not-there")])
    with only(broker, *allowed(Operation.DESCRIBE, "not-there")):
        assert errors_in(ask(broker, wanted, 9)) == {NO_TOPIC}
    assert "not-there" not in broker.broker.image.topics


def test_topics_are_created_that_may_be(broker: EmbeddedBroker) -> None:
    wanted = [topics.CreatableTopic(name, 1, 1) for name in ("mine", "not-mine")]
    with only(broker, *allowed(Operation.CREATE, "mine")):
        answer = ask(broker, topics.CreateTopicsRequest(wanted, 10_000), 7)
    by_name = {topic.name: topic for topic in answer.topics}
    assert by_name["not-mine"].error_code == NO_TOPIC
    own = by_name["mine"]
    assert (own.error_code, own.topic_config_error_code) == (ErrorCode.NONE, NO_TOPIC)
    assert (own.num_partitions, own.replication_factor) == (-1, -1)
    assert "mine" in broker.broker.image.topics
    assert "not-mine" not in broker.broker.image.topics


def test_offsets_are_committed_and_shown_of_topics_that_may_be_read(broker: EmbeddedBroker) -> None:
    partition = offsets.OffsetCommitRequestPartition(0, 5, committed_metadata="")
    request = offsets.OffsetCommitRequest(
        GROUP,
        topics=[offsets.OffsetCommitRequestTopic(name, partitions=[partition]) for name in (TOPIC, OTHER)],
    )
    with RawConnection(broker.port, timeout=60) as connection:
        until_coordinated(connection)
        with only(broker, READ_GROUP, *allowed(Operation.READ, OTHER)):
            answer: Any = connection.ask(request, 8)
        codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
        assert codes == {TOPIC: NO_TOPIC, OTHER: ErrorCode.NONE}
        describe = Action(Operation.DESCRIBE, ResourceType.GROUP, GROUP)
        named = offsets.OffsetFetchRequest(
            groups=[
                offsets.OffsetFetchRequestGroup(
                    GROUP,
                    topics=[
                        offsets.OffsetFetchRequestTopics(name=name, partition_indexes=[0])
                        for name in (TOPIC, OTHER)
                    ],
                )
            ]
        )
        with only(broker, describe, *allowed(Operation.DESCRIBE, OTHER)):
            shown: Any = connection.ask(named, 8)
            codes = {topic.name: topic.partitions[0].error_code for topic in shown.groups[0].topics}
            assert codes == {TOPIC: NO_TOPIC, OTHER: ErrorCode.NONE}
        with only(broker, describe):
            everything: Any = connection.ask(
                offsets.OffsetFetchRequest(groups=[offsets.OffsetFetchRequestGroup(GROUP, topics=None)]), 8
            )
            assert everything.groups[0].topics == []


def until_coordinated(connection: RawConnection) -> None:
    """Wait until the broker coordinates the group."""
    while errors_in(connection.ask(found(4, 0, GROUP), 4)):
        pass
    request = offsets.OffsetFetchRequest(groups=[offsets.OffsetFetchRequestGroup(GROUP, topics=None)])
    while errors_in(connection.ask(request, 8)):
        pass


def test_operations_that_are_shown_are_those_that_are_allowed(broker: EmbeddedBroker) -> None:
    request = metadata.MetadataRequest(
        [metadata.MetadataRequestTopic(name=OTHER)], include_topic_authorized_operations=True
    )
    with only(broker, *allowed(Operation.DESCRIBE, OTHER), *allowed(Operation.READ, OTHER)):
        (topic,) = ask(broker, request, 9).topics
    assert topic.topic_authorized_operations == 1 << Operation.DESCRIBE | 1 << Operation.READ


def test_partitions_are_added_to_a_transaction_all_or_none(broker: EmbeddedBroker) -> None:
    request = transactions.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TRANSACTION,
        v3_and_below_topics=[transactions.AddPartitionsToTxnTopic(name, [0]) for name in (TOPIC, OTHER)],
    )
    write = Action(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, TRANSACTION)
    with only(broker, write, *allowed(Operation.WRITE, OTHER)):
        answer = ask(broker, request, 3)
    codes = {
        topic.name: topic.results_by_partition[0].partition_error_code
        for topic in answer.results_by_topic_v3_and_below
    }
    assert codes == {TOPIC: NO_TOPIC, OTHER: ErrorCode.OPERATION_NOT_ATTEMPTED}


def test_a_large_request_is_authorized_in_its_parts(broker: EmbeddedBroker) -> None:
    partitions = [offsets.ListOffsetsPartition(number, timestamp=-1) for number in range(1500)]
    request = offsets.ListOffsetsRequest(
        topics=[offsets.ListOffsetsTopic(name, partitions) for name in (TOPIC, OTHER)]
    )
    with only(broker, *allowed(Operation.DESCRIBE, OTHER)):
        answer = ask(broker, request, 7)
    codes: dict[str, set[int]] = {}
    for topic in answer.topics:
        codes.setdefault(topic.name, set()).update(each.error_code for each in topic.partitions)
    assert codes == {TOPIC: {NO_TOPIC}, OTHER: {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}}
    assert sum(len(topic.partitions) for topic in answer.topics) == 3000


def test_share_session_continues_without_topics_denied_meanwhile(broker: EmbeddedBroker) -> None:
    read = Action(Operation.READ, ResourceType.GROUP, "sharing")
    wanted = share.FetchTopic(topic_id(broker.broker, OTHER), [share.FetchPartition(0)])
    guarded = share.FetchTopic(topic_id(broker.broker), [share.FetchPartition(0)])
    request = share.ShareFetchRequest("sharing", "member", 0, 0, 1, 10_000, 10, topics=[wanted, guarded])
    sessions = broker.broker.coordinators.share_partitions.sessions
    with RawConnection(broker.port, timeout=30) as connection:
        with only(broker, read, *allowed(Operation.READ, OTHER)):
            first: Any = connection.ask(request, 1)
        codes = {topic.topic_id: topic.partitions[0].error_code for topic in first.responses}
        assert codes[topic_id(broker.broker)] == NO_TOPIC
        session = sessions.find(SessionKey("sharing", "member"))
        assert [place.topic_id for place in session.partitions] == [topic_id(broker.broker, OTHER)]
        with only(broker, read):
            connection.ask(share.ShareFetchRequest("sharing", "member", 1, 0, 1, 10_000, 10), 1)
        assert not session.partitions


def test_pattern_matches_topics_that_the_member_may_describe(broker: EmbeddedBroker) -> None:
    request = consumer.ConsumerGroupHeartbeatRequest(
        "by-pattern", "member", 0, rebalance_timeout_ms=1000, topic_partitions=[]
    )
    request.subscribed_topic_regex = f"{TOPIC}|{OTHER}"
    read = Action(Operation.READ, ResourceType.GROUP, "by-pattern")
    with RawConnection(broker.port, timeout=60) as connection:
        until_coordinated(connection)
        with only(broker, read, *allowed(Operation.DESCRIBE, OTHER)):
            answer: Any = connection.ask(request, 1)
            deadline = time.monotonic() + 60
            while answer.assignment is None or not answer.assignment.topic_partitions:
                assert time.monotonic() < deadline
                request = consumer.ConsumerGroupHeartbeatRequest("by-pattern", "member", answer.member_epoch)
                answer = connection.ask(request, 1)
    assigned = [topic.topic_id for topic in answer.assignment.topic_partitions]
    assert assigned == [topic_id(broker.broker, OTHER)]


def test_a_streams_group_creates_no_internal_topics_without_the_right(broker: EmbeddedBroker) -> None:
    store = streams.TopicInfo("app-store-changelog")
    part = streams.StreamsGroupHeartbeatSubtopology("0", [OTHER], state_changelog_topics=[store])
    request = streams.StreamsGroupHeartbeatRequest(
        group_id="app",
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        topology=streams.StreamsGroupHeartbeatTopology(0, [part]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="process",
        client_tags=[],
    )
    topology = (OTHER, store.name)
    read = Action(Operation.READ, ResourceType.GROUP, "app")
    with RawConnection(broker.port, timeout=30) as connection:
        until_coordinated(connection)
        with only(broker, read, *allowed(Operation.DESCRIBE, *topology)):
            answer: Any = connection.ask(request, 0)
    assert answer.error_code == ErrorCode.NONE, answer
    assert any(
        "Unauthorized to CREATE on topics app-store-changelog" in each.status_detail for each in answer.status
    )
    assert store.name not in broker.broker.image.topics
