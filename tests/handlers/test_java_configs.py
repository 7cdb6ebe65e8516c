"""kafka-configs.sh, unmodified, for resources that only it can change."""

import logging
from collections.abc import Iterator

import pytest

from barnabas.testing import EmbeddedBroker
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import run_tool

pytestmark = requires_java


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"num.io.threads": "4"}) as running:
        yield running


def configs(broker: EmbeddedBroker, *args: str) -> str:
    address = ("--bootstrap-server", broker.bootstrap_servers)
    return run_tool("kafka.admin.ConfigCommand", *address, *args).check().stdout


def test_broker_config_is_changed_for_one_broker_and_shown_with_all_sources(
    broker: EmbeddedBroker,
) -> None:
    one = ("--entity-type", "brokers", "--entity-name", "1")
    configs(broker, *one, "--alter", "--add-config", "log.retention.ms=888888")
    everything = configs(broker, *one, "--describe", "--all")
    assert (
        "log.retention.ms=888888 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=888888, "
        "DEFAULT_CONFIG:log.retention.hours=168}"
    ) in everything
    assert "num.io.threads=4 sensitive=false synonyms={STATIC_BROKER_CONFIG:num.io.threads=4}" in everything
    configs(broker, *one, "--alter", "--delete-config", "log.retention.ms")
    assert "log.retention.ms" not in configs(broker, *one, "--describe")


def test_a_loggers_level_is_changed(broker: EmbeddedBroker) -> None:
    name = "barnabas.broker.lifecycle"
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")
    try:
        configs(broker, *loggers, "--alter", "--add-config", f"{name}=ERROR")
        assert f"  {name}=ERROR sensitive=false" in configs(broker, *loggers, "--describe")
    finally:
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_a_subscription_to_client_metrics_is_made_and_listed(broker: EmbeddedBroker) -> None:
    metrics = ("--entity-type", "client-metrics")
    wanted = "interval.ms=1000,metrics=[a.,b.]"
    configs(broker, *metrics, "--entity-name", "m", "--alter", "--add-config", wanted)
    shown = configs(broker, *metrics, "--describe")
    assert "Dynamic configs for client-metric m are:" in shown
    assert "  metrics=a.,b. sensitive=false" in shown
