from __future__ import annotations

import pytest

from barnabas.common.clock import ManualClock
from barnabas.cluster.image import Resource, ResourceType
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.records.compression import Codec, compress
from barnabas.common.cooperative import finish
from barnabas.handlers.telemetry.manager import ClientInstance, ClientTelemetry, Push, TelemetryLimits
from barnabas.handlers.telemetry.subscriptions import Attributes
from barnabas.common.types import ZERO_UUID
from tests.handlers.telemetry.pushes import counter, gauge, metrics_data, point

JAVA = Attributes("", "shop", "apache-kafka-java", "4.4.0", "127.0.0.1", "50000")
SECONDS = 60
LIMITS = TelemetryLimits(push_bytes=1000, decompressed_bytes=10_000, clients=3, series=4)
A_GAUGE = metrics_data(gauge("org.apache.kafka.producer.latency.avg", point(1.5, node="1")))


class Telemetry:
    def __init__(self, **subscriptions: dict[str, str]) -> None:
        self.clock = ManualClock()
        self.manager = ClientTelemetry(self.clock, LIMITS)
        self.subscribe(**subscriptions or {"all": {"metrics": "*", "interval.ms": str(SECONDS * 1000)}})

    def subscribe(self, **subscriptions: dict[str, str]) -> None:
        self.manager.use(
            {Resource(ResourceType.CLIENT_METRICS, name): each for name, each in subscriptions.items()}
        )

    def get(self, instance_id: bytes = ZERO_UUID, attributes: Attributes = JAVA) -> ClientInstance:
        return self.manager.get(instance_id, attributes)

    def push(self, client: ClientInstance, metrics: bytes = A_GAUGE, **changes: int) -> ErrorCode:
        known = {"subscription_id": client.subscription_id, "is_terminating": 0, "codec": 0} | changes
        push = Push(
            known["subscription_id"], bool(known["is_terminating"]), known["codec"], memoryview(metrics)
        )
        try:
            finish(self.manager.push(client.id, JAVA, push))
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def shown(self) -> dict[str, float]:
        return {
            f"{family.metric.name} {dict(labels).get('node', '')}".strip(): value
            for family in self.manager.families()
            for _, labels, value in family.samples()
        }


def test_a_client_is_asked_for_what_all_subscriptions_that_match_it_name() -> None:
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


def test_what_a_client_pushes_is_shown_until_it_is_silent_for_three_intervals() -> None:
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
    with pytest.raises(KafkaError) as refusal:
        telemetry.get(client.id)
    assert refusal.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert telemetry.push(client, is_terminating=1) is ErrorCode.NONE
    telemetry.clock.advance(SECONDS * 1000)
    assert telemetry.push(client) is ErrorCode.INVALID_REQUEST


def test_a_client_with_an_old_subscription_is_told_and_may_ask_at_once() -> None:
    telemetry = Telemetry()
    client = telemetry.get()
    telemetry.subscribe(other={"metrics": "org.apache.kafka.consumer."})
    assert telemetry.push(client) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert telemetry.get(client.id).subscription_id != client.subscription_id


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
def test_cve_2026_111073_what_comes_out_of_a_compressed_push_is_bounded(codec: Codec) -> None:
    telemetry = Telemetry()
    bomb = compress(codec, bytes(100_000))
    assert telemetry.push(telemetry.get(), bomb, codec=codec) in (
        ErrorCode.INVALID_RECORD,
        ErrorCode.TELEMETRY_TOO_LARGE,
    )
    assert not telemetry.shown()


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
        telemetry.get()
    assert (len(telemetry.manager), telemetry.manager.forgotten) == (LIMITS.clients, 1)
    assert not telemetry.shown(), "the one that was silent longest made room, with its series"


def test_names_from_clients_cannot_break_the_page_or_take_a_name_of_ours() -> None:
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
