"""Pushed metrics that are cheap to send and expensive to decode: rejected while other clients are served."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.types import ZERO_UUID, new_uuid
from barnabas.protocol.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from barnabas.records.compression import Codec, compress
from tests.support.brokers import BrokerProcess
from tests.support.builders.telemetry import field, gauge, metrics_data, point
from tests.support.clients import RawConnection
from tests.support.clocks import Pings

CLIENT_METRICS = 16
MAX_PING = 0.1  # the target for a step is 0.02; a ping waits for several
MEMORY = 64 << 20
POINTS = 2_000_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), "barnabas.telemetry.cpu.percent=100") as running:
        with RawConnection(running.port) as connection:
            settings = {"metrics": "*", "interval.ms": "3600000"}
            resource = IncrementalAlterConfigsAlterConfigsResource(
                resource_type=CLIENT_METRICS,
                resource_name="all",
                configs=[
                    IncrementalAlterConfigsAlterableConfig(name=name, value=value)
                    for name, value in settings.items()
                ],
            )
            answer = connection.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert isinstance(answer, IncrementalAlterConfigsResponse)
            assert answer.responses[0].error_code == 0
        yield running


def subscribed(connection: RawConnection) -> GetTelemetrySubscriptionsResponse:
    answer = connection.ask(GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID), 0)
    assert isinstance(answer, GetTelemetrySubscriptionsResponse)
    assert answer.error_code == 0
    return answer


def push(
    connection: RawConnection, metrics: bytes, instance_id: bytes, subscription_id: int, codec: int = 0
) -> ErrorCode:
    request = PushTelemetryRequest(
        client_instance_id=instance_id,
        subscription_id=subscription_id,
        compression_type=codec,
        metrics=metrics,
    )
    answer = connection.ask(request, 0)
    assert isinstance(answer, PushTelemetryResponse)
    return ErrorCode(answer.error_code)


BOMBS = {
    "empty points": field(1, field(2, field(2, field(5, field(1, b"") * POINTS)))),
    "empty metrics": field(1, field(2, field(2, b"") * POINTS)),
    "long names": metrics_data(*(gauge("x" * 1_000_000, point(1)) for _ in range(30))),
}


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.GZIP, Codec.LZ4], ids=lambda codec: codec.name)
@pytest.mark.parametrize("case", BOMBS)
def test_a_push_of_a_few_bytes_does_not_hold_up_others_or_fill_the_memory(
    broker: BrokerProcess, case: str, codec: Codec
) -> None:
    bomb = compress(codec, BOMBS[case])
    before = broker.memory_peak
    with Pings(broker) as pings, RawConnection(broker.port) as connection:
        client = subscribed(connection)
        code = push(connection, bomb, client.client_instance_id, client.subscription_id, codec)
    assert code is (ErrorCode.NONE if case == "long names" else ErrorCode.TELEMETRY_TOO_LARGE)
    assert pings.longest < MAX_PING
    assert broker.memory_peak - before < len(bomb) + MEMORY


def test_a_connection_that_invents_instance_ids_is_throttled(broker: BrokerProcess) -> None:
    """The subscription id depends on the instance id: the attacker requests it on other connections."""
    codes = []
    with RawConnection(broker.port) as connection:
        for _ in range(5):
            with RawConnection(broker.port) as other:
                client = subscribed(other)
            metrics = metrics_data(gauge("a", point(1)))
            codes.append(push(connection, metrics, client.client_instance_id, client.subscription_id))
        assert push(connection, b"", new_uuid(), 7) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert set(codes[1:]) == {ErrorCode.THROTTLING_QUOTA_EXCEEDED}
