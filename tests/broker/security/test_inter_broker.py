"""How a broker is a client of others, and whom it takes for one."""

from __future__ import annotations

import pytest

from barnabas.broker.from_config import authorizer_from
from barnabas.broker.security.inter_broker import is_broker, peer_security
from barnabas.client.security.settings import PLAINTEXT, Mechanism
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError
from barnabas.security.acls import AclBinding, PatternType, Permission
from barnabas.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from barnabas.security.context import RequestContext
from barnabas.security.principal import Principal

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


def asks(name: str) -> RequestContext:
    return RequestContext(Principal("User", name), "IN", "127.0.0.1")


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

    assert "Brokers cannot talk to each other over the listener IN" in str(refusal.value)
    assert text in str(refusal.value)
    assert "swordfish" not in str(refusal.value)


def test_who_has_the_brokers_own_name_or_is_a_super_user_is_a_broker() -> None:
    settings = config(**{"super.users": "User:admin;User:other"})
    judge = is_broker(settings, None)

    assert [name for name in ("broker", "admin", "other", "alice") if judge(asks(name))] == [
        "broker",
        "admin",
        "other",
    ]


def test_who_may_do_cluster_action_is_a_broker() -> None:
    settings = config(**{"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"})
    authorizer = authorizer_from(settings, frozenset())
    assert authorizer is not None
    allowed = AclBinding(
        ResourceType.CLUSTER,
        CLUSTER_NAME,
        PatternType.LITERAL,
        "User:alice",
        "*",
        Operation.CLUSTER_ACTION,
        Permission.ALLOW,
    )
    authorizer.use(frozenset({allowed}))
    judge = is_broker(settings, authorizer)

    assert judge(asks("alice"))
    assert not judge(asks("bob"))


def test_while_the_listener_is_changed_brokers_are_known_on_both() -> None:
    settings = config(**{"inter.broker.listener.name": "OUT", "barnabas.also.inter.broker.listeners": "IN"})

    assert is_broker(settings, None)(asks("broker"))
    assert not is_broker(settings, None)(asks("alice"))


def test_where_nothing_tells_brokers_from_others_everybody_is_one() -> None:
    settings = config(**{"inter.broker.listener.name": "OUT"})

    assert is_broker(settings, None)(asks("alice"))
