"""Forwarding by Envelope (KIP-590): the controller serves a client's request in the client's name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from barnabas.cluster.features import ENVELOPE_LEVEL, level_of
from barnabas.common.errors import ErrorCode
from barnabas.controller.topics import NewTopic
from barnabas.handlers.envelope import wrap
from barnabas.handlers.forwarding import create_topics
from barnabas.network.requests.rules import OPEN, RequestSecurity
from barnabas.protocol.messages.groups import HeartbeatRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.replication import EnvelopeRequest
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.schema import Message
from barnabas.security.authz.authorizer import Action, AllowAll, Decisions, Operation, ResourceType
from barnabas.security.context import RequestContext
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.quotas import NoQuotas, QuotaKind
from tests.support.clients import RawConnection
from tests.support.clusters import Brokers

ALICE = RequestContext(Principal("User", "alice"), "CLIENTS", "192.0.2.7", client_id="hers")
TWO_LISTENERS = {
    "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


class Recording(AllowAll):
    """Denies topics with a prefix, and records requests."""

    def __init__(self) -> None:
        self.seen: list[tuple[RequestContext, Action]] = []

    def decisions(self, context: RequestContext) -> Decisions:
        return _Recorded(self, context)

    def creators(self, topic: str) -> list[RequestContext]:
        wanted = Action(Operation.CREATE, ResourceType.TOPIC, topic)
        return [context for context, action in self.seen if action == wanted]


class _Recorded(NamedTuple):
    authorizer: Recording
    context: RequestContext

    def __getitem__(self, action: Any) -> Any:
        self.authorizer.seen.append((self.context, action))
        is_denied = action.name.startswith("denied") and action.operation is Operation.CREATE
        return not is_denied and action != Action(Operation.CREATE, ResourceType.CLUSTER)


class Exhausted(NoQuotas):
    """Admits no change of the metadata."""

    kinds = frozenset({QuotaKind.MUTATION})

    WAIT_MS = 50

    def admit(self, context: RequestContext, mutations: int, *, is_strict: bool) -> int:
        return self.WAIT_MS


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("cluster"), 2, TWO_LISTENERS) as running:
        yield running


@pytest.fixture
def authorizer(cluster: Brokers) -> Iterator[Recording]:
    """Authorizer of the controller: it denies other things than the client's broker."""
    dispatcher = cluster.brokers[cluster.controller].dispatcher
    recording = Recording()
    dispatcher.use(RequestSecurity(authorizer=recording))
    yield recording
    dispatcher.use(OPEN)


def bystander(cluster: Brokers) -> Any:
    (number,) = cluster.brokers.keys() - {cluster.controller}
    return cluster.brokers[number]


def ask(port: int, request: Message, version: int) -> Any:
    with RawConnection(port, timeout=60) as connection:
        return connection.ask(request, version)


def creating(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 10_000)


def test_the_controller_authorizes_the_client_of_another_broker(
    cluster: Brokers, authorizer: Recording
) -> None:
    answer = ask(bystander(cluster).listeners[0].port, creating("allowed", "denied"), 7)
    codes = {topic.name: topic.error_code for topic in answer.topics}
    assert codes == {"allowed": ErrorCode.NONE, "denied": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    (context,) = authorizer.creators("denied")
    assert (context.principal, context.host, context.client_id) == (ANONYMOUS, "127.0.0.1", "raw")
    assert context.is_forwarded
    assert not context.is_privileged
    assert context.connection is None


def test_a_topic_that_metadata_creates_is_created_in_the_name_of_the_client(
    cluster: Brokers, authorizer: Recording
) -> None:
    wanted = MetadataRequest(
        [MetadataRequestTopic(name="by-metadata"), MetadataRequestTopic(name="denied-too")]
    )
    ask(bystander(cluster).listeners[0].port, wanted, 9)
    (context,) = authorizer.creators("by-metadata")
    assert (context.principal, context.client_id) == (ANONYMOUS, "raw")
    assert "denied-too" not in cluster.any.image.topics


def test_a_topic_that_a_broker_needs_is_created_by_the_broker(
    cluster: Brokers, authorizer: Recording
) -> None:
    results = cluster.run(create_topics(bystander(cluster), [NewTopic("denied-to-clients", 1, 1)]))
    assert results == {"denied-to-clients": None}
    assert authorizer.creators("denied-to-clients") == []


def test_the_controller_charges_the_client_of_another_broker(cluster: Brokers) -> None:
    dispatcher = cluster.brokers[cluster.controller].dispatcher
    dispatcher.use(RequestSecurity(quotas=Exhausted()))
    try:
        answer = ask(bystander(cluster).listeners[0].port, creating("too-many"), 7)
    finally:
        dispatcher.use(OPEN)
    assert answer.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert answer.throttle_time_ms == Exhausted.WAIT_MS
    assert "too-many" not in cluster.any.image.topics


def test_envelope_has_the_principal_of_the_client(cluster: Brokers, authorizer: Recording) -> None:
    port = cluster.brokers[cluster.controller].listeners[1].port
    answer = ask(port, wrap(creating("hers"), 7, ALICE), 0)
    assert answer.error_code == ErrorCode.NONE
    (context,) = authorizer.creators("hers")
    assert (context.principal, context.host, context.client_id) == (ALICE.principal, ALICE.host, "hers")


def test_envelope_must_contain_a_controller_request(cluster: Brokers) -> None:
    inner = wrap(creating("nested"), 7, ALICE)
    not_forwarded = wrap(HeartbeatRequest("g"), 4, ALICE)
    complete = wrap(creating("broken"), 7, ALICE)
    stranger = EnvelopeRequest(inner.request_data, b"\x00\x07", inner.client_host_address)
    nowhere = EnvelopeRequest(inner.request_data, inner.request_principal, b"abc")
    too_new = wrap(creating("too-new"), 7, ALICE)
    too_new.request_data = too_new.request_data[:2] + b"\x00\x63" + too_new.request_data[4:]
    broken = EnvelopeRequest(
        complete.request_data[:-9], complete.request_principal, complete.client_host_address
    )
    expected = [
        (wrap(inner, 0, ALICE), ErrorCode.INVALID_REQUEST),
        (not_forwarded, ErrorCode.INVALID_REQUEST),
        (stranger, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (nowhere, ErrorCode.INVALID_REQUEST),
        (too_new, ErrorCode.UNSUPPORTED_VERSION),
        (broken, ErrorCode.INVALID_REQUEST),
        (EnvelopeRequest(b"", inner.request_principal, b""), ErrorCode.INVALID_REQUEST),
    ]
    before = cluster.any.image
    for envelope, error in expected:
        answer = ask(cluster.brokers[cluster.controller].listeners[1].port, envelope, 0)
        assert (answer.error_code, answer.response_data) == (error, None)
    assert cluster.any.image is before


def test_broker_that_is_not_the_controller_answers_not_controller(cluster: Brokers) -> None:
    answer = ask(bystander(cluster).listeners[1].port, wrap(creating("elsewhere"), 7, ALICE), 0)
    assert answer.error_code == ErrorCode.NOT_CONTROLLER


def test_clients_send_no_envelopes(cluster: Brokers) -> None:
    port = cluster.brokers[cluster.controller].listeners[0].port
    answer = ask(port, wrap(creating("by-a-client"), 7, ALICE), 0)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert "by-a-client" not in cluster.any.image.topics


def test_a_cluster_begins_with_the_level_of_envelopes(cluster: Brokers) -> None:
    assert level_of(cluster.any.image) >= ENVELOPE_LEVEL
