"""Client settings of connections between brokers."""

from __future__ import annotations

import pytest

from barnabas.broker.security.inter_broker import peer_security
from barnabas.client.security.settings import PLAINTEXT, Mechanism
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError

JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="swordfish" '
    'user_broker="swordfish" user_alice="a";'
)
SETTINGS = {
    "log.dirs": "unused",
    "zookeeper.connect": "z:2181",
    "listeners": "IN://127.0.0.1:1,OUT://127.0.0.1:2",
    "listener.security.protocol.map": "IN:SASL_PLAINTEXT,OUT:PLAINTEXT",
    "inter.broker.listener.name": "IN",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.in.plain.sasl.jaas.config": JAAS,
}


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig.load({**SETTINGS, **settings})


def test_a_broker_is_a_client_with_the_name_in_its_own_jaas_text() -> None:
    security = peer_security(config())

    assert security.sasl is not None
    assert (security.sasl.mechanism, security.sasl.username) == (Mechanism.PLAIN, "broker")
    assert "swordfish" not in repr(security)


def test_brokers_that_talk_in_the_clear_need_no_name() -> None:
    assert peer_security(config(**{"inter.broker.listener.name": "OUT"})) == PLAINTEXT


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"},
            "is SCRAM-SHA-512, which the listener does not offer: it offers PLAIN, SCRAM-SHA-256",
        ),
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, "sasl.username is missing"),
        (
            {"listener.name.in.plain.sasl.jaas.config": JAAS.replace("username", "name")},
            "has the option 'name', which is not supported",
        ),
    ],
)
def test_brokers_that_could_not_talk_to_each_other_are_not_started(
    settings: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        peer_security(config(**settings))

    assert "Brokers cannot communicate over the listener IN" in str(refusal.value)
    assert text in str(refusal.value)
    assert "swordfish" not in str(refusal.value)
