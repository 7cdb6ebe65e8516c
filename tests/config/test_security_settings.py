"""No security setting of Kafka is ignored without a reason."""

from __future__ import annotations

import re

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.config.consistency import KNOWN_CLASSES
from barnabas.config.definitions import BROKER, UNUSED
from barnabas.config.setting import ConfigError
from barnabas.config.unused_settings import reason_without_effect
from tests.config.kafka_definitions import BROKER_CLASS, definitions
from tests.support.kafka.jars import requires_java

OF_SECURITY = re.compile(
    r"^(ssl|sasl|security|password\.encoder|zookeeper\.ssl)\.|token|quota|principal|authoriz|authentication"
    r"|reauth|super\.users|\.policy\.class"
)


@requires_java
def test_every_setting_of_kafka_about_security_is_used_refused_or_has_a_reason() -> None:
    """`test_effects` checks that declared settings are used."""
    expected = {name for name in definitions(BROKER_CLASS) if OF_SECURITY.search(name)}
    assert len(expected) > 90
    silent = {name for name in expected if name not in BROKER and not reason_without_effect(name)}
    assert sorted(silent - KNOWN_CLASSES.keys()) == []


def test_settings_of_kafka_3_have_a_reason_too() -> None:
    assert [name for name in UNUSED if OF_SECURITY.search(name) and not reason_without_effect(name)] == []


def test_setting_one_returns_the_reason() -> None:
    (warning,) = BrokerConfig.load({"ssl.provider": "BC"}).warnings
    assert warning == (
        "ssl.provider is a setting of Apache Kafka that has no effect in Barnabas: it configures Java's TLS, but "
        "Barnabas uses OpenSSL; see ssl.enabled.protocols and ssl.cipher.suites"
    )


@pytest.mark.parametrize("name", ["zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"])
def test_impractical_revocation_checks_prevent_the_start(name: str) -> None:
    BrokerConfig.load({name: "false"})
    with pytest.raises(ConfigError, match="does not check revocation"):
        BrokerConfig.load({name: "true"})
