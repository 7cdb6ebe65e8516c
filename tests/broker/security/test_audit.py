"""The audit log in a file and in a topic."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cluster.deltas import AclsChanged
from barnabas.common.errors import ErrorCode
from barnabas.config.broker import BrokerConfig
from barnabas.protocol.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
)
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.security.authz.acls import AclBinding, PatternType, Permission
from barnabas.security.authz.audit import TOPIC, AuditFile, AuditLog, AuditPolicy, Selection, lines_of
from barnabas.security.authz.authorizer import Action, Operation, ResourceType
from barnabas.security.context import RequestContext
from barnabas.security.principal import Principal
from barnabas.testing import EmbeddedBroker
from tests.support.clients import RawConnection
from tests.support.sasl import commit
from tests.support.waiting import until

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PASSWORD = "swordfish"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
ALICE = RequestContext(Principal("User", "alice"), "SECURE", "10.0.0.1", "hers")
WRITE = Action(Operation.WRITE, ResourceType.TOPIC, "orders")
CREATE = Action(Operation.CREATE, ResourceType.TOPIC, "orders")
ALL = frozenset(("denied", "admin", "logins"))


def log(limit: int = 10, **policy: Any) -> AuditLog:
    return AuditLog(AuditPolicy(policy.pop("events", ALL), **policy), 1, lambda: 0, limit)


def seen(written: AuditLog) -> list[tuple[str, bool]]:
    return [(event["operation"], event["allowed"]) for event in written.take()]


def told(written: AuditLog) -> list[tuple[str, bool]]:
    for action in (WRITE, CREATE):
        for is_allowed in (True, False):
            written.decided(ALICE, "Some", action, is_allowed)
    return seen(written)


def test_denials_and_changes_are_events_by_default() -> None:
    assert told(log()) == [("WRITE", False), ("CREATE", True), ("CREATE", False)]
    assert told(log(events=frozenset({"admin"}))) == [("CREATE", True)]
    assert len(told(log(events=frozenset({"allowed", "denied"})))) == 4
    assert told(log(operations=Selection.of(["WRITE"]))) == [("WRITE", False)]
    assert told(log(operations=Selection.of(["-WRITE"]))) == [("CREATE", True), ("CREATE", False)]
    assert told(log(apis=Selection.of(["Other"]))) == []
    assert told(log(principals=Selection.of(["-User:alice"]))) == []
    assert len(told(log(principals=Selection.of(["User:alice", "User:bob"])))) == 3


def test_requests_between_brokers_are_not_audited() -> None:
    written = log(events=frozenset({"allowed"}))
    broker = RequestContext(Principal("User", "broker"), "BROKERS", "10.0.0.2", is_privileged=True)
    written.decided(broker, "Produce", Action(Operation.WRITE, ResourceType.TOPIC, TOPIC), True)
    written.decided(broker, "Fetch", Action(Operation.CLUSTER_ACTION, ResourceType.CLUSTER), True)
    assert written.take() == []
    written.decided(broker, "Produce", WRITE, True)
    assert len(written.take()) == 1


def test_oversized_values_are_counted_and_reported() -> None:
    written = log(limit=2)
    for _ in range(5):
        written.decided(ALICE, "Produce", WRITE, False)
    events = written.take()
    assert [event["event"] for event in events] == ["request", "request", "lost"]
    assert (events[-1]["count"], written.lost) == (3, 3)
    assert written.take() == []
    written.give_up(events)
    assert written.take()[0]["count"] == 3


def test_files_are_rotated_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = AuditFile(tmp_path / "audit" / "log", max_bytes=100, count=2)
        for number in range(10):
            file.write(lines_of([{"number": number, "text": "x" * 50}]))
    finally:
        os.umask(before)
    found = sorted((tmp_path / "audit").iterdir())
    assert [path.name for path in found] == ["log", "log.1", "log.2"]
    assert [json.loads(path.read_text())["number"] for path in found] == [9, 8, 7]
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedBroker, Path]]:
    path = tmp_path_factory.mktemp("audit") / "audit.log"
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "connection.failed.authentication.delay.ms": "0",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{_PLAIN} user_admin="{PASSWORD}" user_alice="{PASSWORD}";'
        ),
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "authorizer.class.name": STANDARD,
        "super.users": "User:admin",
        "barnabas.audit.file": str(path),
        "barnabas.audit.topic.enable": "true",
    }
    with EmbeddedBroker(settings) as broker:
        yield broker, path


def logged_in(port: int, user: str, password: str = PASSWORD) -> RawConnection:
    connection = RawConnection(port)
    connection.ask(SaslHandshakeRequest("PLAIN"), 1)
    connection.ask(SaslAuthenticateRequest(f"\0{user}\0{password}".encode()), 2)
    return connection


def events_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_audit_events_are_in_the_file_and_in_the_topic(audited: tuple[EmbeddedBroker, Path]) -> None:
    broker, path = audited
    logged_in(broker.port, "alice", "guessed-" + PASSWORD).close()
    with logged_in(broker.port, "admin") as admin:
        admin.ask(CreateTopicsRequest([CreatableTopic("orders", 1, 1)], 30_000), 7)
        admin.ask(MetadataRequest([MetadataRequestTopic(name="orders")]), 9)
    with logged_in(broker.port, "alice") as alice:
        alice.ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5)
    until(lambda: len(events_in(path)) >= 5)
    events = events_in(path)
    logins = [(event["principal"], event["allowed"]) for event in events if event["event"] == "login"]
    assert logins == [(None, False), ("User:admin", True), ("User:alice", True)]
    requests = [
        (event["principal"], event["api"], event["operation"], event["resource"], event["allowed"])
        for event in events
        if event["event"] == "request"
    ]
    assert requests == [
        ("User:admin", "CreateTopics", "CREATE", "orders", True),
        ("User:alice", "DeleteTopics", "DESCRIBE", "orders", False),
    ]
    assert events[-1]["host"] == "127.0.0.1"
    assert PASSWORD not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    partitions = broker.broker.replicas.by_name
    until(lambda: 0 in partitions.get(TOPIC, {}) and partitions[TOPIC][0].log.log_end_offset >= 5)
    (segment,) = broker.data_dir.glob(f"{TOPIC}-0/*.log")
    assert b"DeleteTopics" in segment.read_bytes()
    assert PASSWORD.encode() not in segment.read_bytes()


def test_latest_events_are_written_by_a_stopping_broker(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with EmbeddedBroker({"authorizer.class.name": STANDARD, "barnabas.audit.file": str(path)}) as broker:
        with RawConnection(broker.port) as connection:
            connection.ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5)
        assert broker.broker.audit is not None
        assert broker.broker.audit.is_waiting or path.exists()
    assert [event["resource"] for event in events_in(path)] == ["orders"]


def test_nothing_is_part_of_a_request_where_there_is_no_audit_log() -> None:
    assert BrokerConfig.load({})["barnabas.audit.file"] is None
    with EmbeddedBroker() as broker:
        assert broker.broker.audit is None
        route = broker.broker.dispatcher.route_of(3, 9)
        assert route is not None
        assert route.function is route.handler.function


EVERYTHING = 2  # the operation ALL of an ACL
SHORT = IncrementalAlterConfigsAlterConfigsResource(
    resource_type=2,
    resource_name=TOPIC,
    configs=[IncrementalAlterConfigsAlterableConfig(name="retention.ms", value="1")],
)


def test_rights_on_all_topics_are_not_enough_to_change_the_audit_log(
    audited: tuple[EmbeddedBroker, Path],
) -> None:
    broker, _ = audited
    everywhere = AclBinding(
        ResourceType.TOPIC, "*", PatternType.LITERAL, "User:alice", "*", EVERYTHING, Permission.ALLOW
    )
    commit(broker, [AclsChanged(added=(everywhere,))])
    partitions = broker.broker.replicas.by_name
    with logged_in(broker.port, "alice") as alice:
        until(lambda: TOPIC in partitions and partitions[TOPIC][0].log.log_end_offset > 0)
        metadata: Any = alice.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 9)
        assert (metadata.topics[0].error_code, metadata.topics[0].is_internal) == (0, False)
        deleted: Any = alice.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1000), 5)
        changed: Any = alice.ask(IncrementalAlterConfigsRequest(resources=[SHORT]), 1)
        refused = [*written_and_cut(alice), deleted.responses[0], changed.responses[0]]
    assert {each.error_code for each in refused} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def test_not_even_a_super_user_writes_or_truncates_the_audit_log(
    audited: tuple[EmbeddedBroker, Path],
) -> None:
    broker, _ = audited
    partitions = broker.broker.replicas.by_name
    with logged_in(broker.port, "admin") as admin:
        until(lambda: TOPIC in partitions and partitions[TOPIC][0].log.log_end_offset > 0)
        refused = written_and_cut(admin)
    assert {each.error_code for each in refused} == {ErrorCode.INVALID_TOPIC_EXCEPTION}


def written_and_cut(connection: RawConnection) -> list[Any]:
    """The answers to a forged event, and to a request to delete all records."""
    data = PartitionProduceData(0, build_batch([Record(0, 0, None, b"nothing happened")]))
    written: Any = connection.ask(
        ProduceRequest(None, -1, 1000, [TopicProduceData(TOPIC, partition_data=[data])]), 9
    )
    cut: Any = connection.ask(
        DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, -1)])], 1000), 2
    )
    return [written.responses[0].partition_responses[0], cut.topics[0].partitions[0]]
