"""Quota usage of clients, and their throttle times."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from barnabas.metrics.registry import Registry
from barnabas.security.context import RequestContext
from barnabas.security.principal import USER, Principal
from barnabas.security.quotas import QuotaKind, Usage
from barnabas.security.quotas.address_quotas import AddressQuotas
from barnabas.security.quotas.client_quotas import ClientQuotas, QuotaLimits
from barnabas.security.quotas.filters import DEFAULT, QuotaEntity
from barnabas.security.quotas.interface import UNBOUNDED
from barnabas.security.quotas.rates import Windows
from barnabas.security.quotas.series import declare_quota_metrics


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


def made(
    time: Time, quotas: Mapping[QuotaEntity, Mapping[str, float]], limits: QuotaLimits | None = None
) -> ClientQuotas:
    client_quotas = ClientQuotas(limits or QuotaLimits(), time)
    client_quotas.update(quotas)
    return client_quotas


def client(user: str = "alice", client_id: str | None = "shop") -> RequestContext:
    return RequestContext(Principal(USER, user), "PLAINTEXT", "127.0.0.1", client_id)


def test_clients_of_a_user_share_its_quota_and_other_users_do_not(time: Time) -> None:
    quotas = made(time, {QuotaEntity("alice"): {"producer_byte_rate": 100.0}})
    assert quotas.charge(client(client_id="one"), Usage(produced_bytes=1000)) == 0
    assert quotas.charge(client(client_id="two"), Usage(produced_bytes=500)) == 5000
    assert quotas.charge(client("bob"), Usage(produced_bytes=10**9)) == 0


def test_a_default_is_for_each_client_for_itself(time: Time) -> None:
    quotas = made(time, {QuotaEntity(None, DEFAULT): {"consumer_byte_rate": 100.0}})
    for client_id in ("one", "two"):
        assert quotas.charge(client(client_id=client_id), Usage(fetched_bytes=1000)) == 0
    assert quotas.charge(client("bob", "two"), Usage(fetched_bytes=100)) == 1000


def test_each_kind_of_quota_has_its_own_precedence(time: Time) -> None:
    quotas = made(
        time,
        {
            QuotaEntity("alice"): {"producer_byte_rate": 100.0},
            QuotaEntity(DEFAULT): {"producer_byte_rate": 1.0, "consumer_byte_rate": 1.0},
        },
    )
    assert quotas.charge(client(), Usage(produced_bytes=1000)) == 0
    assert quotas.charge(client(), Usage(fetched_bytes=1000)) == 990_000
    assert quotas.kinds == {QuotaKind.PRODUCE, QuotaKind.FETCH}


def test_quota_change_takes_effect_immediately_and_earlier_use_still_counts(time: Time) -> None:
    quotas = made(time, {QuotaEntity("alice"): {"producer_byte_rate": 100.0}})
    assert quotas.charge(client(), Usage(produced_bytes=1500)) == 5000
    assert not quotas.update({QuotaEntity("alice"): {"producer_byte_rate": 1000.0}})
    assert quotas.charge(client(), Usage(produced_bytes=100)) == 0
    assert not quotas.update({QuotaEntity("alice"): {"producer_byte_rate": 100.0}})
    assert quotas.charge(client(), Usage(produced_bytes=400)) == 10_000
    assert quotas.update({})
    assert not quotas.kinds
    assert not len(quotas)


def test_a_fetch_that_has_to_wait_is_not_counted_since_nothing_is_sent(time: Time) -> None:
    quotas = made(time, {QuotaEntity("alice"): {"consumer_byte_rate": 100.0}})
    assert quotas.charge_fetch(client(), Usage(fetched_bytes=1000)) == 0
    assert quotas.charge_fetch(client(), Usage(fetched_bytes=500)) == 5000
    assert quotas.charge_fetch(client(), Usage(fetched_bytes=500)) == 5000
    time.now += 11
    assert quotas.charge_fetch(client(), Usage(fetched_bytes=500)) == 0


def test_a_batch_larger_than_all_windows_is_sent_once_and_then_waited_for(time: Time) -> None:
    quotas = made(time, {QuotaEntity("alice"): {"consumer_byte_rate": 100.0}})
    assert quotas.fetch_room(client()) == 1000
    assert quotas.charge_fetch(client(), Usage(fetched_bytes=5000)) == 0
    assert quotas.charge_fetch(client(), Usage(fetched_bytes=1)) > 40_000 - 100
    assert quotas.fetch_room(client("bob")) == UNBOUNDED


def test_time_of_the_loop_is_waited_for_one_window_at_most(time: Time) -> None:
    quotas = made(time, {QuotaEntity("alice"): {"request_percentage": 1.0}})
    assert quotas.charge(client(), Usage(seconds=0.1)) == 0  # ten per cent of a second are 1 % of ten
    assert quotas.charge(client(), Usage(seconds=0.001)) == 100
    assert quotas.charge(client(), Usage(seconds=5.0)) == 1000


def test_throttled_client_gets_no_records(time: Time) -> None:
    quotas = made(time, {QuotaEntity("alice"): {"request_percentage": 1.0, "consumer_byte_rate": 100.0}})
    assert quotas.charge_fetch(client(), Usage(fetched_bytes=900, seconds=1.0)) == 1000
    time.now += 1
    assert quotas.charge(client(), Usage(fetched_bytes=1000)) == 0, "the bytes were not counted"


def test_mutations_beyond_the_bucket_are_refused_or_waited_for(time: Time) -> None:
    limits = QuotaLimits(controller_windows=Windows(10, 1.0))
    quotas = made(time, {QuotaEntity("alice"): {"controller_mutation_rate": 10.0}}, limits)
    assert quotas.admit(client(), 90, is_strict=True) == 0
    assert quotas.admit(client(), 30, is_strict=True) == 0, "it may be overdrawn once"
    assert quotas.admit(client(), 1, is_strict=True) == 2000
    assert quotas.admit(client(), 10, is_strict=False) == 3000, "it is carried out, and counts"
    time.now += 3
    assert quotas.admit(client(), 1, is_strict=True) == 0
    assert quotas.admit(client(), 0, is_strict=True) == 0


def test_state_is_bounded_and_the_longest_silent_make_room(time: Time) -> None:
    quotas = made(time, {QuotaEntity(None, DEFAULT): {"producer_byte_rate": 10.0}}, QuotaLimits(clients=20))
    for number in range(100):
        time.now += 0.01
        quotas.charge(client(client_id=f"client-{number}"), Usage(produced_bytes=1000))
        quotas.charge(client(client_id="steady"), Usage(produced_bytes=1000))
        assert len(quotas) <= 20
    assert quotas.forgotten > 0
    assert quotas.charge(client(client_id="steady"), Usage(produced_bytes=1)) > 9_000_000


def test_producer_silent_for_an_hour_is_dropped(time: Time) -> None:
    quotas = made(time, {QuotaEntity(None, DEFAULT): {"producer_byte_rate": 10.0}})
    quotas.charge(client(), Usage(produced_bytes=1000))
    time.now += 3599
    quotas.forget_silent()
    assert len(quotas) == 1
    time.now += 1
    quotas.forget_silent()
    assert len(quotas) == 0


def test_metrics_have_kafkas_names_and_are_bounded_in_series(time: Time) -> None:
    quotas = made(
        time,
        {QuotaEntity(DEFAULT): {"producer_byte_rate": 10.0, "controller_mutation_rate": 1.0}},
        QuotaLimits(series=2),
    )
    registry = Registry()
    declare_quota_metrics(registry, quotas, time)
    for number in range(5):
        time.now += 1
        quotas.charge(client(f"user-{number}"), Usage(produced_bytes=1000))
    quotas.admit(client("user-4"), 5, is_strict=True)
    values = registry.snapshot()
    assert values["kafka_server_quota_byte_rate{resource=Produce,user=user-4}"] == 100
    assert values["kafka_server_quota_throttle_time{resource=Produce,user=user-4}"] == 90_000
    assert values["kafka_server_quota_tokens{resource=ControllerMutation,user=user-4}"] == 6
    assert sum("byte_rate" in name for name in values) == 2


# -- addresses ------------------------------------------------------------------------------------------


def test_an_address_that_opens_too_many_connections_is_kept_away_for_a_window_at_most(time: Time) -> None:
    quotas = AddressQuotas(Windows(), time)
    assert quotas.delay("10.0.0.1") == 0
    quotas.update(
        {
            QuotaEntity(ip="10.0.0.1"): {"connection_creation_rate": 1.0},
            QuotaEntity(ip=DEFAULT): {"connection_creation_rate": 2.0},
        }
    )
    assert [quotas.delay("10.0.0.1") for _ in range(10)] == [0.0] * 10
    assert quotas.delay("10.0.0.1") == 1.0
    assert [quotas.delay("10.0.0.2") for _ in range(20)] == [0.0] * 20
    assert quotas.delay("10.0.0.2") == 0.5
    time.now += 11
    assert quotas.delay("10.0.0.1") == 0, "what was kept away does not count"


def test_addresses_that_are_remembered_are_bounded(time: Time) -> None:
    quotas = AddressQuotas(Windows(), time, addresses=10)
    quotas.update({QuotaEntity(ip=DEFAULT): {"connection_creation_rate": 2.0}})
    for number in range(100):
        quotas.delay(f"10.0.0.{number}")
        assert len(quotas) <= 10
    quotas.update({})
    assert not len(quotas)
