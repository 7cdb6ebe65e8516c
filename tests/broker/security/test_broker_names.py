"""Identification of other brokers on listeners that serve brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.from_config import authorizer_from
from barnabas.broker.security.inter_broker import BrokerNames, IsBroker, own_names
from barnabas.config.broker import BrokerConfig
from barnabas.security.authz.acls import AclBinding, PatternType, Permission
from barnabas.security.authz.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from barnabas.security.context import RequestContext
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.tls.authority import Authority
from tests.broker.security.test_inter_broker import config

STANDARD = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


def names_of(settings: BrokerConfig, authorizer: Authorizer | None = None) -> BrokerNames:
    return BrokerNames(settings, own_names(settings), authorizer)


def judge_of(settings: BrokerConfig, authorizer: Authorizer | None = None) -> IsBroker:
    return names_of(settings, authorizer).may_be_broker


def asks(name: str, listener: str = "IN", client_id: str | None = None) -> RequestContext:
    principal = Principal("User", name) if name else ANONYMOUS
    return RequestContext(principal, listener, "127.0.0.1", client_id, is_privileged=True)


def test_brokers_principal_and_super_users_are_brokers() -> None:
    settings = config(**{"super.users": "User:admin;User:other"})
    judge = judge_of(settings)

    assert [name for name in ("broker", "admin", "other", "alice") if judge(asks(name))] == [
        "broker",
        "admin",
        "other",
    ]


def test_principal_with_cluster_action_is_a_broker() -> None:
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
    judge = judge_of(settings, authorizer)

    assert judge(asks("alice"))
    assert not judge(asks("bob"))


def test_while_the_listener_is_changed_brokers_are_known_on_both() -> None:
    settings = config(**{"inter.broker.listener.name": "OUT", "barnabas.also.inter.broker.listeners": "IN"})

    assert judge_of(settings)(asks("broker"))
    assert not judge_of(settings)(asks("alice"))


def test_all_certificates_are_of_brokers_without_a_rule() -> None:
    settings = config(**{"inter.broker.listener.name": "OUT"})

    assert judge_of(settings)(asks("alice"))


# -- certificates --------------------------------------------------------------------------------------


def with_certificates(folder: Path, **settings: str) -> BrokerConfig:
    """One listener for all clients, with mandatory certificates; this broker's is for `one.example`."""
    authority = Authority(folder)
    authority.provide(["one.example"])
    return BrokerConfig.load(
        {
            "log.dirs": "unused",
            "zookeeper.connect": "z:2181",
            "listeners": "SSL://127.0.0.1:1",
            "security.inter.broker.protocol": "SSL",
            "ssl.client.auth": "required",
            "ssl.keystore.location": str(authority.broker),
            "ssl.truststore.location": str(authority.certificate),
            **settings,
        }
    )


def test_a_broker_knows_its_own_name_by_its_certificate(tmp_path: Path) -> None:
    assert own_names(with_certificates(tmp_path)).by_certificate == {"User:CN=one.example"}
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/"}
    assert own_names(with_certificates(tmp_path, **rules)).principals == {"User:one.example"}
    assert not own_names(with_certificates(tmp_path, **{"ssl.client.auth": "none"})).principals


def test_super_users_determine_the_certificates_of_brokers(tmp_path: Path) -> None:
    judge = judge_of(with_certificates(tmp_path, **{"super.users": "User:CN=two.example"}))
    wanted = ["CN=one.example", "CN=two.example"]
    assert [name for name in (*wanted, "CN=alice") if judge(asks(name, "SSL"))] == wanted


def test_authorizer_determines_the_certificates_of_brokers(tmp_path: Path) -> None:
    settings = with_certificates(tmp_path, **STANDARD)
    authorizer = authorizer_from(settings, own_names(settings).principals)
    judge = judge_of(settings, authorizer)
    assert [name for name in ("CN=one.example", "CN=alice") if judge(asks(name, "SSL"))] == ["CN=one.example"]


def test_certificates_of_any_name_are_of_brokers_without_a_rule(tmp_path: Path) -> None:
    """Each broker may have one in its own name, and the others do not know it."""
    assert judge_of(with_certificates(tmp_path))(asks("CN=two.example", "SSL"))


# -- beyond doubt: who is not counted against quotas -----------------------------------------------------


@pytest.mark.parametrize("client_id", ["barnabas-broker-1", "shop"])
def test_no_client_id_makes_a_broker(client_id: str) -> None:
    shared = config(listeners="IN://127.0.0.1:1")
    is_broker = names_of(shared).is_authenticated_broker
    assert is_broker(asks("broker", client_id=client_id))
    assert not is_broker(asks("alice", client_id=client_id))
    clear = config(**{"listeners": "OUT://127.0.0.1:1", "inter.broker.listener.name": "OUT"})
    assert not names_of(clear).is_authenticated_broker(asks("", "OUT", client_id))


def test_connection_on_the_broker_listener_is_a_broker() -> None:
    apart = config(**{"inter.broker.listener.name": "OUT"})
    assert names_of(apart).is_authenticated_broker(asks("", "OUT"))
    unprivileged = asks("", "OUT").unprivileged()
    assert not names_of(apart).is_authenticated_broker(unprivileged)


def test_certificate_without_a_name_is_not_a_broker_whatever_its_rights() -> None:
    """`User:ANONYMOUS` must be a super user where brokers do not authenticate, and includes all clients."""
    settings = config(
        **{
            "listeners": "OUT://127.0.0.1:1",
            "inter.broker.listener.name": "OUT",
            "super.users": "User:ANONYMOUS",
        }
    )
    assert not names_of(settings).is_authenticated_broker(asks("", "OUT", "barnabas-broker-1"))
