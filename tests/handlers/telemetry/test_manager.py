from __future__ import annotations

import pytest
import zstandard

from barnabas.cluster.image import ConfigResourceType, Resource
from barnabas.common.clock import ManualClock
from barnabas.common.cooperative import finish
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID
from barnabas.handlers.telemetry.manager import (
    ClientInstance,
    ClientTelemetry,
    Push,
    TelemetryClient,
    TelemetryLimits,
    refusal,
)
from barnabas.handlers.telemetry.subscriptions import Attributes
from barnabas.records.compression import Codec, CompressionError, compress, unpack
from tests.support.builders.telemetry import counter, gauge, metrics_data, point

JAVA = Attributes("", "shop", "apache-kafka-java", "4.4.0", "127.0.0.1", "50000")
SECONDS = 60
LIMITS = TelemetryLimits(
    push_bytes=1000, decompressed_bytes=10_000, points=100, clients=3, series=4, cpu_percent=10
)
SHARER = "User:shop"
A_GAUGE = metrics_data(gauge("org.apache.kafka.producer.latency.avg", point(1.5, node="1")))


class Telemetry:
    def __init__(self, **subscriptions: dict[str, str]) -> None:
        self.clock = ManualClock()
        self.manager = ClientTelemetry(self.clock, LIMITS)
        self.subscribe(**subscriptions or {"all": {"metrics": "*", "interval.ms": str(SECONDS * 1000)}})

    def subscribe(self, **subscriptions: dict[str, str]) -> None:
        self.manager.use(
            {Resource(ConfigResourceType.CLIENT_METRICS, name): each for name, each in subscriptions.items()}
        )

    def connect(self) -> TelemetryClient:
        sender = TelemetryClient()
        self.manager.senders[id(sender)] = sender
        return sender

    def get(
        self,
        instance_id: bytes = ZERO_UUID,
        attributes: Attributes = JAVA,
        sender: TelemetryClient | None = None,
    ) -> ClientInstance:
        """On a separate connection by default."""
        return self.manager.get(sender or self.connect(), instance_id, attributes)

    def push(
        self,
        client: ClientInstance,
        metrics: bytes = A_GAUGE,
        sender: TelemetryClient | None = None,
        sharer: str = SHARER,
        **changes: int,
    ) -> ErrorCode:
        known = {"subscription_id": client.subscription_id, "is_terminating": 0, "codec": 0} | changes
        push = Push(
            known["subscription_id"], bool(known["is_terminating"]), known["codec"], memoryview(metrics)
        )
        manager = self.manager
        try:
            admitted = manager.admit(sender or client.sender, sharer, client.id, JAVA, push)
            data = unpack(push.codec, push.metrics, manager.limits.decompressed_bytes)
            finish(manager.keep(admitted, memoryview(data)))
        except CompressionError as error:
            return refusal(error).code
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def shown(self) -> dict[str, float]:
        return {
            f"{family.metric.name} {dict(labels).get('node', '')}".strip(): value
            for family in self.manager.families()
            for _, labels, value in family.samples()
        }


def test_client_is_asked_for_the_union_of_its_matching_subscriptions() -> None:
    telemetry = Telemetry(
        producers={"metrics": "org.apache.kafka.producer.", "interval.ms": "5000", "match": "client_id=sh.*"},
        java={"metrics": "org.apache.kafka.consumer.", "match": "client_software_name=apache-kafka-java"},
        others={"metrics": "*", "interval.ms": "100", "match": "client_id=other,client_source_address=127.*"},
    )
    wanted = telemetry.get().wanted
    assert wanted == (("org.apache.kafka.consumer.", "org.apache.kafka.producer."), 5000)
    assert telemetry.get(attributes=JAVA._replace(client_id="other")).wanted.metrics == ("*",)


def test_without_a_subscription_a_client_asks_again_after_five_minutes_and_pushes_nothing() -> None:
    telemetry = Telemetry()
    telemetry.subscribe()
    assert telemetry.get().wanted == ((), 300_000)


def test_pushed_client_metrics_are_shown_for_three_silent_intervals() -> None:
    telemetry = Telemetry()
    client = telemetry.get()
    assert telemetry.push(client) is ErrorCode.NONE
    assert telemetry.shown() == {"kafka_client_producer_latency_avg 1": 1.5}
    telemetry.clock.advance(SECONDS * 3000 - 1)
    assert telemetry.shown()
    telemetry.clock.advance(2)
    assert not telemetry.shown()
    assert len(telemetry.manager) == len(telemetry.manager.series) == 0


def test_a_client_may_ask_and_push_once_in_an_interval_and_push_once_more_when_it_ends() -> None:
    telemetry = Telemetry()
    client = telemetry.get()
    assert telemetry.push(client) is ErrorCode.NONE
    assert telemetry.push(client) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    with pytest.raises(KafkaError) as refused:
        telemetry.get(client.id, sender=client.sender)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert telemetry.push(client, is_terminating=1) is ErrorCode.NONE
    telemetry.clock.advance(SECONDS * 1000)
    assert telemetry.push(client) is ErrorCode.INVALID_REQUEST


def test_client_with_an_old_subscription_gets_an_error_and_may_ask_again_immediately() -> None:
    telemetry = Telemetry()
    client = telemetry.get()
    telemetry.subscribe(other={"metrics": "org.apache.kafka.consumer."})
    assert telemetry.push(client) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    again = telemetry.get(client.id, sender=client.sender)
    assert again.subscription_id != client.subscription_id


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_metrics_may_be_compressed(codec: Codec) -> None:
    telemetry = Telemetry()
    assert telemetry.push(telemetry.get(), compress(codec, A_GAUGE), codec=codec) is ErrorCode.NONE
    assert telemetry.shown()


@pytest.mark.parametrize(
    ("metrics", "codec", "error"),
    [
        (b"\xff" * 20, 0, ErrorCode.INVALID_RECORD),
        (A_GAUGE, Codec.ZSTD, ErrorCode.INVALID_RECORD),
        (A_GAUGE, 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (bytes(1001), 0, ErrorCode.TELEMETRY_TOO_LARGE),
    ],
)
def test_bad_pushes_get_the_errors_of_kafka(metrics: bytes, codec: int, error: ErrorCode) -> None:
    telemetry = Telemetry()
    assert telemetry.push(telemetry.get(), metrics, codec=codec) is error
    assert not telemetry.shown()


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_cve_2026_111073_decompressed_size_of_a_push_is_bounded(codec: Codec) -> None:
    telemetry = Telemetry()
    bomb = compress(codec, bytes(100_000))
    telemetry.manager.limits = LIMITS._replace(push_bytes=len(bomb))
    assert telemetry.push(telemetry.get(), bomb, codec=codec) is ErrorCode.TELEMETRY_TOO_LARGE
    assert not telemetry.shown()


def test_a_frame_of_zstd_that_does_not_declare_its_size_is_too_large_as_well() -> None:
    """Java clients do not declare it. INVALID_RECORD would end their telemetry."""
    telemetry = Telemetry()
    stream = zstandard.ZstdCompressor().compressobj()
    bomb = stream.compress(bytes(100_000)) + stream.flush()
    assert telemetry.push(telemetry.get(), bomb, codec=Codec.ZSTD) is ErrorCode.TELEMETRY_TOO_LARGE


def test_more_points_than_allowed_are_too_large() -> None:
    telemetry = Telemetry()
    points = metrics_data(gauge("x", b"\x0a\x00" * (LIMITS.points + 1)))
    assert telemetry.push(telemetry.get(), points) is ErrorCode.TELEMETRY_TOO_LARGE


def test_push_without_a_subscription_must_ask_again() -> None:
    """INVALID_REQUEST, or accepting it, would repeat indefinitely."""
    telemetry = Telemetry()
    telemetry.subscribe()
    client = telemetry.get()
    for _ in range(2):
        assert telemetry.push(client) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert telemetry.get(client.id, sender=client.sender).wanted.metrics == ()


def test_rate_applies_to_a_connection_regardless_of_the_instance_id() -> None:
    telemetry = Telemetry()
    sender = telemetry.connect()
    codes = []
    for number in range(5):
        id_ = bytes([number + 1]) * 16
        wanted = telemetry.get().wanted
        client = ClientInstance(id_, JAVA, wanted, 1, sender)
        codes.append(telemetry.push(client, sender=sender, is_terminating=number % 2))
    assert codes[0] is ErrorCode.NONE
    assert codes[1] is ErrorCode.NONE, "it ends, so that it may push early, once"
    assert set(codes[2:]) == {ErrorCode.THROTTLING_QUOTA_EXCEEDED}


def test_a_connection_has_one_client_at_a_time_and_takes_it_away_when_it_is_closed() -> None:
    telemetry = Telemetry()
    sender = telemetry.connect()
    first = telemetry.get(sender=sender)
    telemetry.push(first)
    telemetry.clock.advance(SECONDS * 1000)
    second = telemetry.get(sender=sender)
    assert (len(telemetry.manager), telemetry.shown()) == (1, {})
    telemetry.push(second)
    again = telemetry.get(second.id)  # on another connection
    telemetry.manager.disconnect(id(sender))
    assert telemetry.shown(), "it has moved to the other connection"
    telemetry.manager.disconnect(id(again.sender))
    assert len(telemetry.manager) == 0


def test_one_principal_that_takes_all_cpu_time_does_not_keep_others_from_pushing() -> None:
    telemetry = Telemetry()
    telemetry.manager.cpu.charge("User:mallory", 60)
    client = telemetry.get()
    assert telemetry.push(client, sharer="User:mallory") is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert telemetry.push(telemetry.get(), sharer="User:alice") is ErrorCode.NONE
    telemetry.clock.advance(10 * SECONDS * 1000)
    assert telemetry.push(client, sharer="User:mallory") is ErrorCode.NONE


def test_a_client_without_an_id_cannot_push() -> None:
    telemetry = Telemetry()
    client = telemetry.get()
    client.id = ZERO_UUID
    assert telemetry.push(client) is ErrorCode.INVALID_REQUEST


def test_clients_and_series_are_bounded() -> None:
    telemetry = Telemetry()
    many = metrics_data(counter("requests", *(point(n, node=str(n)) for n in range(10))))
    first = telemetry.get()
    assert telemetry.push(first, many) is ErrorCode.NONE
    assert (len(telemetry.manager.series), telemetry.manager.series.dropped) == (4, 6)
    for _ in range(LIMITS.clients):
        telemetry.get()  # each on a separate connection
    assert (len(telemetry.manager), telemetry.manager.forgotten) == (LIMITS.clients, 1)
    assert not telemetry.shown(), "the one that was silent longest made room, with its series"


def test_names_from_clients_cannot_break_the_page_or_reserve_names() -> None:
    telemetry = Telemetry()
    names = ('barnabas_x{} 1\n"', "barnabas.x.. 1...", "9")
    metrics = metrics_data(*(gauge(name, point(1, **{"client id": "a", "client_id": "b"})) for name in names))
    telemetry.push(telemetry.get(), metrics)
    shown = list(telemetry.manager.families())
    assert [family.metric.name for family in shown] == [
        "kafka_client__9",
        "kafka_client_barnabas_x___1__",
        "kafka_client_barnabas_x___1___",
    ]
    for family in shown:
        (sample,) = family.samples()
        assert dict(sample.labels)["client_id"] == "shop"
