"""Requests on the fast path are answered, stored and counted like decoded ones: compared on two brokers."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.types import ZERO_UUID
from barnabas.handlers.produce.fast_path import KnownHeads
from barnabas.handlers.produce.many_heads import MAX_KNOWN
from barnabas.handlers.table import HANDLERS
from barnabas.metrics.registry import Registry
from barnabas.metrics.requests import RequestMetrics
from barnabas.network.requests import RequestSecurity
from barnabas.network.requests.routes import Route
from barnabas.network.requests.stages import compiled
from barnabas.protocol.api import ApiKey
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.topics import DeleteTopicsRequest
from barnabas.records.builder import build_batch
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from barnabas.security.authz.standard_authorizer import Policy, StandardAuthorizer
from barnabas.testing import EmbeddedBroker
from tests.support.clients import RawConnection, frame_of

NOW = 1_700_000_000_000
VERSIONS = (3, 7, 8, 9, 13)


class Topic(NamedTuple):
    name: str
    id: bytes


def batch(size: int = 100, **options: Any) -> bytes:
    return bytes(build_batch([Record(0, NOW, b"key", bytes(size))], **options))


def request(
    topic: Topic, version: int, *records: bytes | None, acks: int = 1, partition: int = 0, **options: Any
) -> bytes:
    """A frame with one partition for each of the records."""
    return of_indexes(topic, version, *enumerate(records, partition), acks=acks, **options)


def of_indexes(
    topic: Topic, version: int, *records: tuple[int, bytes | None], acks: int = 1, **options: Any
) -> bytes:
    data = [PartitionProduceData(index, each) for index, each in records]
    named = (
        TopicProduceData("", topic.id, data)
        if version >= 13
        else TopicProduceData(topic.name, ZERO_UUID, data)
    )
    return frame_of(ProduceRequest(options.get("transactional_id"), acks, 5_000, [named]), version, 7)


def broken(records: bytes) -> bytes:
    return records[:-1] + bytes([records[-1] ^ 1])


def cut(frame: bytes, count: int) -> bytes:
    """The same frame, truncated, with a matching length."""
    return struct.pack(">i", len(frame) - 4 - count) + frame[4:-count]


def of_producer(sequence: int, epoch: int = 0) -> bytes:
    return batch(producer_id=77, producer_epoch=epoch, base_sequence=sequence)


CASES: dict[str, Callable[[Topic, int], list[bytes]]] = {
    "batches of several lengths": lambda t, v: [request(t, v, batch(size)) for size in (1, 50, 60, 127, 40_000)],
    "acks=all": lambda t, v: [request(t, v, batch(), acks=-1)] * 3,
    "acks=1, all and none in turns": lambda t, v: [request(t, v, batch(), acks=acks) for acks in (1, -1, 0, 1, 0, 1)],
    "acks that do not exist": lambda t, v: [request(t, v, batch(), acks=acks) for acks in (1, 2, 1)],
    "a batch that is damaged": lambda t, v: [request(t, v, each) for each in (batch(), broken(batch()), batch())],
    "no records, null and empty": lambda t, v: [request(t, v, each) for each in (batch(), None, b"", batch())],
    "less than a header": lambda t, v: [request(t, v, each) for each in (batch(), batch()[:60], batch())],
    "two batches for one": lambda t, v: [request(t, v, each) for each in (batch(), batch() + batch())],
    "a batch that is too large": lambda t, v: [request(t, v, batch()), request(t, v, batch(2_000_000))],
    "an offset of its own": lambda t, v: [request(t, v, each) for each in (batch(), batch(base_offset=5))],
    "a control batch": lambda t, v: [request(t, v, each) for each in (batch(), batch(control=True))],
    "zstd": lambda t, v: [request(t, v, each) for each in (batch(), batch(900, compression=Codec.ZSTD))],
    "lz4": lambda t, v: [request(t, v, batch(900, compression=Codec.LZ4))] * 2,
    "an idempotent producer": lambda t, v: [request(t, v, of_producer(n)) for n in (0, 1, 1, 2, 9, 3)],
    "a producer that is fenced": lambda t, v: [request(t, v, of_producer(0, epoch)) for epoch in (3, 4, 2)],
    "partitions in turns": lambda t, v: [request(t, v, batch(), partition=each) for each in (0, 1, 0, 1)],
    "a partition that does not exist": lambda t, v: [request(t, v, batch(), partition=each) for each in (0, 9, 9)],
    "two partitions at once": lambda t, v: [request(t, v, *[batch()] * count) for count in (1, 2, 1, 2)],
    "subsets of partitions": lambda t, v: [
        of_indexes(t, v, *[(each, batch(size)) for each in chosen])
        for size in (1, 50, 60, 127, 20_000)
        for chosen in ((0, 1), (1, 0), (1,), (0, 1), (0,), (1, 0), (0, 0))
    ],
    "several with acks=all": lambda t, v: [request(t, v, batch(), batch(), acks=-1)] * 3,
    "several, one is damaged": lambda t, v: [
        request(t, v, *each) for first in (batch(), broken(batch())) for second in (batch(), broken(batch()))
        for each in ((batch(), batch()), (first, second))
    ],
    "several, one has no records": lambda t, v: [
        request(t, v, batch(), each) for each in (batch(), None, b"", batch(), batch()[:60], batch())
    ],
    "several, one does not exist": lambda t, v: [
        of_indexes(t, v, (0, batch()), (each, batch())) for each in (1, 9, 1, 9)
    ],
    "several of a producer": lambda t, v: [
        request(t, v, of_producer(first), of_producer(second))
        for first, second in ((0, 0), (1, 1), (1, 1), (2, 5), (2, 2))
    ],
    "several in a frame that ends early": lambda t, v: [
        request(t, v, batch(), batch()), cut(request(t, v, batch(), batch()), 9)
    ],
    "several with a tagged field": lambda t, v: [
        request(t, v, batch(), batch()), with_tag(request(t, v, batch(), batch()), v)
    ] * 2,
    "several with less than a header": lambda t, v: [
        request(t, v, batch(), batch()), request(t, v, batch(), batch()[:30]), request(t, v, batch()[:30], batch())
    ],
    "a transactional id": lambda t, v: [
        request(t, v, batch()), request(t, v, batch(), transactional_id="mine"), request(t, v, batch()),
    ],
    "a topic that does not exist": lambda t, v: [request(Topic("none", b"n" * 16), v, batch())] * 3,
    "an internal topic": lambda t, v: [request(Topic("__consumer_offsets", b"n" * 16), v, batch())] * 3,
    "a frame that ends early": lambda t, v: [request(t, v, batch()), cut(request(t, v, batch()), 9)],
    "a frame that ends in the length": lambda t, v: [
        request(t, v, batch()), cut(request(t, v, batch()), len(batch()) + (5 if v >= 9 else 2)),
    ],
    "a frame with more behind it": lambda t, v: [
        request(t, v, batch()),
        struct.pack(">i", len(request(t, v, batch())) + 1) + request(t, v, batch())[4:] + b"12345",
        request(t, v, batch()),
    ],
    "a tagged field that nobody knows": lambda t, v: [request(t, v, batch()), with_tag(request(t, v, batch()), v)] * 2,
    "many at once": lambda t, v: [b"".join([request(t, v, batch(size)) for size in range(50)])],
}  # fmt: skip


def with_tag(frame: bytes, version: int) -> bytes:
    """In flexible versions, an unknown field at the end of the request."""
    if version < 9:
        return frame
    body = frame[4:-1] + b"\x01\x63\x02ab"
    return struct.pack(">i", len(body)) + body


@pytest.fixture(scope="module", params=["auto", "always"])
def brokers(request: pytest.FixtureRequest) -> Iterator[tuple[EmbeddedBroker, EmbeddedBroker]]:
    settings = {"barnabas.acks.all.fsync": request.param}
    with EmbeddedBroker(settings) as short, EmbeddedBroker(settings) as long:
        handlers = long.broker.dispatcher.handlers
        handlers[ApiKey.PRODUCE] = handlers[ApiKey.PRODUCE]._replace(shortcut=None)
        yield short, long


class Outcome(NamedTuple):
    answers: list[bytes | None]
    logs: list[bytes]
    counted: dict[str, float]


def outcome(broker: EmbeddedBroker, name: str, version: int) -> Outcome:
    """Observable state after a case, without differences between brokers."""
    topic = created(broker, f"{''.join(filter(str.isalpha, name))}-{version}")
    before = counted(broker)
    answers = answers_to(CASES[name](topic, version), topic, broker.port)
    added = {metric: value - before.get(metric, 0.0) for metric, value in counted(broker).items()}
    logs = [(broker.data_dir / f"{topic.name}-{n}" / f"{0:020}.log").read_bytes() for n in (0, 1)]
    return Outcome(answers, logs, added)


def created(broker: EmbeddedBroker, name: str, **configs: str) -> Topic:
    broker.create_topic(name, partitions=2, configs=configs)
    return Topic(name, broker.broker.image.topics[name].topic_id)


def answers_to(frames: list[bytes], topic: Topic, port: int) -> list[bytes | None]:
    """On one connection; None for its end."""
    answers: list[bytes | None] = []
    connection = RawConnection(port)
    for frame in frames:
        connection.send(frame + THE_END)
        while (answer := connection.receive()) is not None and not answer.startswith(THE_END[8:12]):
            answers.append(answer.replace(topic.id, b"id"))
        if answer is None:
            answers.append(None)
            connection.close()
            connection = RawConnection(port)
    connection.close()
    return answers


THE_END = struct.pack(
    ">ihhih", 10, ApiKey.API_VERSIONS, 0, 99, -1
)  # answered after acks=0, which has no response


COUNTED = re.compile("requests_total|seconds_count.*Produce|(bytesin|messagesin)_total|batches_")


def counted(broker: EmbeddedBroker) -> dict[str, float]:
    """Requests, received bytes and rejections."""
    values = broker.broker.metrics.snapshot()
    return {name: value for name, value in values.items() if COUNTED.search(name)}


@pytest.mark.parametrize("name", CASES)
def test_answers_logs_and_metrics_are_those_of_the_long_way(
    brokers: tuple[EmbeddedBroker, EmbeddedBroker], name: str
) -> None:
    short, long = brokers
    for version in VERSIONS:
        assert outcome(short, name, version) == outcome(long, name, version), version


@pytest.mark.parametrize("version", [7, 8, 9, 13])
@pytest.mark.parametrize("acks", [1, -1])
def test_a_request_with_a_known_head_is_not_decoded(version: int, acks: int) -> None:
    settings = {"barnabas.acks.all.fsync": "always"}
    with EmbeddedBroker(settings) as broker, RawConnection(broker.port) as connection:
        topic = created(broker, "known")
        connection.send(request(topic, version, batch(), acks=acks))
        assert connection.receive() is not None
        route = broker.broker.dispatcher._routes[version]
        route.decode = None  # type: ignore[assignment]
        for records in (batch(1), batch(300), broken(batch()), batch(30_000)):
            connection.send(request(topic, version, records, acks=acks))
            answer = connection.receive()
            assert answer is not None
            assert answer.startswith(struct.pack(">i", 7))


@pytest.mark.parametrize("version", [8, 9, 13])
@pytest.mark.parametrize("acks", [1, -1])
def test_requests_of_several_partitions_are_not_decoded(version: int, acks: int) -> None:
    settings = {"barnabas.acks.all.fsync": "always"}
    with EmbeddedBroker(settings) as broker, RawConnection(broker.port) as connection:
        topic = created(broker, "several")

        def send(*indexes: int) -> None:
            parts = [(index, batch(index * 300)) for index in indexes]
            connection.send(of_indexes(topic, version, *parts, acks=acks))
            answer = connection.receive()
            assert answer is not None
            assert answer.startswith(struct.pack(">i", 7))

        for indexes in (
            (0, 1),
            (1,),
            (0,),
            (0, 1),
            (1,),
        ):  # by now heads of one and of two partitions are known
            send(*indexes)
        route = broker.broker.dispatcher._routes[version]
        route.decode = None  # type: ignore[assignment]
        for indexes in ((1, 0), (1,), (0, 1), (0,)):
            send(*indexes)
        logs = [broker.broker.replicas.by_name["several"][index].log for index in (0, 1)]
        assert [log.log_end_offset for log in logs] == [6, 7]


def test_an_answer_waits_for_the_disk_where_it_has_to() -> None:
    settings = {"barnabas.acks.all.fsync": "always"}
    with EmbeddedBroker(settings) as broker, RawConnection(broker.port) as connection:
        topic = created(broker, "safe")
        for number in range(1, 5):
            connection.send(request(topic, 9, batch(), acks=-1))
            assert connection.receive() is not None
            log = broker.broker.replicas.by_name["safe"][0].log
            assert log.offsets.recovery_point == number


def test_injected_error_is_returned_for_a_known_request() -> None:
    with EmbeddedBroker() as broker:
        topic = created(broker, "injected")
        frames = [request(topic, 8, batch())] * 2
        with RawConnection(broker.port) as connection:
            connection.send(b"".join(frames))
            usual = [connection.receive() for _ in frames]
            broker.inject("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)
            connection.send(frames[0])
            assert connection.receive() != usual[1]
        assert broker.broker.replicas.by_name["injected"][0].log.log_end_offset == 2


def test_a_topic_that_is_deleted_and_created_again_is_another_one() -> None:
    with EmbeddedBroker() as broker, RawConnection(broker.port) as connection:
        for _ in range(2):
            topic = created(broker, "again")
            for number in range(3):
                connection.send(request(topic, 8, batch()))
                answer = connection.receive()
                assert answer is not None
                assert struct.pack(">hqq", 0, number, -1) in answer
            connection.ask(DeleteTopicsRequest(topic_names=["again"], timeout_ms=30_000), 1)
            connection.send(request(topic, 8, batch()))
            answer = connection.receive()
            assert answer is not None
            assert struct.pack(">hq", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1) in answer


def test_records_that_need_inspection_are_inspected() -> None:
    with EmbeddedBroker() as broker, RawConnection(broker.port) as connection:
        topic = created(broker, "compacted", **{"cleanup.policy": "compact"})
        keyless = bytes(build_batch([Record(0, NOW, None, b"value")]))
        for records, error in ((batch(), 0), (batch(), 0), (keyless, ErrorCode.INVALID_RECORD), (batch(), 0)):
            connection.send(request(topic, 8, records))
            answer = connection.receive()
            assert answer is not None
            assert struct.pack(">ih", 0, error) in answer


def test_a_route_with_an_authorizer_has_no_shortcut() -> None:
    def route(version: int, security: RequestSecurity) -> Route:
        return Route(handler, version, RequestMetrics(Registry()), compiled(handler, version, security))

    handler = next(each for each in HANDLERS if each.request_class is ProduceRequest)
    assert route(8, RequestSecurity(StandardAuthorizer(Policy()))).shortcut is None
    assert route(8, RequestSecurity()).shortcut is not None
    assert route(6, RequestSecurity()).shortcut is None


def test_only_so_many_heads_are_remembered() -> None:
    handler = next(each for each in HANDLERS if each.request_class is ProduceRequest)
    shortcut = KnownHeads(Route(handler, 8, RequestMetrics(Registry())))
    for number in range(MAX_KNOWN + 10):
        message = ProduceRequest(
            None,
            1,
            1,
            [TopicProduceData("t", partition_data=[PartitionProduceData(number, memoryview(batch()))])],
        )
        body = memoryview(encode(message, 8))
        assert shortcut.learn(message, body, 0, len(body), 0) == len(body) - 4 - len(batch())
        assert len(shortcut._known) <= MAX_KNOWN
