"""The answers in these tests were compared with those of Apache Kafka 4.3.1, probed with the same requests."""

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from barnabas.cluster.image import Resource
from barnabas.common.errors import ErrorCode
from barnabas.config import definitions
from barnabas.config.topic_settings import TOPIC_SETTINGS
from barnabas.controller.topics import NewTopic, create_topics
from barnabas.handlers.configuration.alter_configs import alter_configs, incremental_alter_configs
from barnabas.handlers.configuration.config_resources import MAX_SETTINGS
from barnabas.handlers.configuration.describe_configs import describe_configs, list_config_resources
from barnabas.protocol.messages.configs import (
    AlterConfigsAlterableConfig,
    AlterConfigsAlterConfigsResource,
    AlterConfigsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from tests.handlers.brokers import Client

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

Answer = tuple[int, str | None]


def client_with_topic(settings: Mapping[str, str] | None = None, **configs: str) -> Client:
    client = Client(settings=settings)
    client.broker.node_id = 1
    own: dict[str, str | None] = {name.replace("_", "."): value for name, value in configs.items()}
    new = NewTopic("orders", configs=own)
    client.decide(lambda image: create_topics(image, [new], client.broker.policy))
    return client


def describe(client: Client, kind: int, name: str, *keys: str, version: int = 4, **options: bool) -> Any:
    resource = DescribeConfigsResource(kind, name, list(keys) or None)
    request = DescribeConfigsRequest(resources=[resource], **{"include_synonyms": True, **options})
    (result,) = client.ask(describe_configs, request, version).results
    return result


def row(client: Client, kind: int, name: str, key: str, **options: Any) -> Any:
    (found,) = describe(client, kind, name, key, **options).configs
    return found


def synonyms(found: Any) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in found.synonyms]


def change(
    client: Client,
    kind: int,
    name: str,
    *operations: tuple[str, int, str | None],
    version: int = 1,
    validate_only: bool = False,
) -> Answer:
    configs = [IncrementalAlterConfigsAlterableConfig(*operation) for operation in operations]
    resource = IncrementalAlterConfigsAlterConfigsResource(kind, name, configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (response,) = client.ask(incremental_alter_configs, request, version).responses
    assert (response.resource_type, response.resource_name) == (kind, name)
    return response.error_code, response.error_message


def replace(
    client: Client, kind: int, name: str, *settings: tuple[str, str | None], version: int = 2
) -> Answer:
    configs = [AlterConfigsAlterableConfig(*setting) for setting in settings]
    request = AlterConfigsRequest(resources=[AlterConfigsAlterConfigsResource(kind, name, configs)])
    (response,) = client.ask(alter_configs, request, version).responses
    return response.error_code, response.error_message


def stored(client: Client, kind: int = TOPIC, name: str = "orders") -> Mapping[str, str]:
    return client.image.configs.get(Resource(kind, name), {})


SHOWN = {setting.name for setting in TOPIC_SETTINGS if not setting.name.startswith("internal.")}


# -- describing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_all_settings_of_a_topic_are_described_in_every_version(version: int) -> None:
    result = describe(
        client_with_topic(), TOPIC, "orders", version=version, include_documentation=version > 2
    )
    assert (result.error_code, result.error_message) == (0, "")
    rows = {found.name: found for found in result.configs}
    assert rows.keys() == SHOWN
    retention = rows["retention.ms"]
    assert (retention.value, retention.config_source, retention.read_only) == ("604800000", 5, False)
    assert retention.config_type == (5 if version >= 3 else 0)
    assert bool(retention.documentation) is (version >= 3)
    assert "internal.segment.bytes" not in rows


def test_documentation_and_synonyms_are_returned_only_on_request() -> None:
    found = row(client_with_topic(), TOPIC, "orders", "retention.ms", include_synonyms=False)
    assert (found.documentation, found.synonyms) == (None, [])


def test_an_empty_list_of_keys_asks_for_all_and_unknown_keys_for_nothing() -> None:
    client = client_with_topic()
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(TOPIC, "orders", [])])
    (result,) = client.ask(describe_configs, request, 1).results
    assert {found.name for found in result.configs} == SHOWN
    assert describe(client, TOPIC, "orders", "nonsense").configs == []


def test_synonyms_lead_from_the_topic_over_the_brokers_properties_to_the_default() -> None:
    settings = {"log.retention.minutes": "1000", "compression.type": "lz4"}
    client = client_with_topic(settings, segment_bytes="2000000")
    segment = row(client, TOPIC, "orders", "segment.bytes")
    assert (segment.value, segment.config_source) == ("2000000", 1)
    assert synonyms(segment) == [("segment.bytes", "2000000", 1), ("log.segment.bytes", "1073741824", 5)]
    retention = row(client, TOPIC, "orders", "retention.ms")
    assert (retention.value, retention.config_source) == ("60000000", 4)
    assert synonyms(retention) == [("log.retention.minutes", "1000", 4), ("log.retention.hours", "168", 5)]
    compression = row(client, TOPIC, "orders", "compression.type")
    assert synonyms(compression) == [("compression.type", "lz4", 4), ("compression.type", "producer", 5)]


def test_a_change_at_run_time_is_stronger_than_the_brokers_properties() -> None:
    client = client_with_topic({"log.retention.ms": "5000"})
    assert change(client, BROKER, "", ("log.retention.ms", SET, "6000")) == (0, None)
    assert change(client, BROKER, "1", ("log.retention.ms", SET, "7000")) == (0, None)
    client.broker.config = client.broker.config.with_dynamic(
        stored(client, BROKER, "1"), stored(client, BROKER, "")
    )
    found = row(client, TOPIC, "orders", "retention.ms")
    assert (found.value, found.config_source) == ("7000", 2)
    expected = [
        ("log.retention.ms", value, source) for value, source in (("7000", 2), ("6000", 3), ("5000", 4))
    ]
    assert synonyms(found) == [*expected, ("log.retention.hours", "168", 5)]
    (shared,) = describe(client, BROKER, "").configs
    assert (shared.name, shared.value, shared.config_source) == ("log.retention.ms", "6000", 3)


def test_cve_2019_12399_broker_shows_read_only_settings_and_hides_secrets() -> None:
    client = client_with_topic({"ssl.key.password": "swordfish", "num.io.threads": "8"})
    rows = {found.name: found for found in describe(client, BROKER, "1").configs}
    assert (rows["num.partitions"].read_only, rows["log.retention.ms"].read_only) == (True, False)
    assert (rows["node.id"].value, rows["broker.id"].value) == ("1", "1")
    secret = rows["ssl.key.password"]
    assert (secret.is_sensitive, secret.value, synonyms(secret)) == (
        True,
        None,
        [("ssl.key.password", None, 4)],
    )
    assert rows["num.io.threads"].value == "8"
    assert "num.network.threads" not in rows


def test_a_group_falls_back_to_the_brokers_default() -> None:
    client = client_with_topic()
    assert change(client, GROUP, "g", ("consumer.session.timeout.ms", SET, "46000")) == (0, None)
    found = row(client, GROUP, "g", "consumer.session.timeout.ms")
    assert (found.value, found.config_source) == ("46000", 8)
    assert synonyms(found)[1:] == [("group.consumer.session.timeout.ms", "45000", 5)]
    own = row(client, GROUP, "g", "share.isolation.level")
    assert synonyms(own) == [("share.isolation.level", "read_uncommitted", 5)]


def test_client_metrics_have_three_settings() -> None:
    client = client_with_topic()
    assert change(client, METRICS, "m", ("interval.ms", SET, "100"), ("metrics", APPEND, "a.")) == (0, None)
    rows = {
        found.name: (found.value, found.config_source) for found in describe(client, METRICS, "m").configs
    }
    assert rows == {"interval.ms": ("100", 7), "match": ("", 5), "metrics": ("a.", 7)}


@pytest.mark.parametrize(
    ("kind", "name", "code", "text"),
    [
        (TOPIC, "nope", 3, ""),
        (TOPIC, "", 17, "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "77", 42, "Unexpected broker id, expected 1 or empty string, but received 77"),
        (BROKER, "abc", 42, "Broker id must be an integer, but it is: abc"),
        (LOGGER, "", 42, "Broker id must not be empty"),
        (LOGGER, "99", 42, "Unexpected broker id, expected 1 but received 99"),
        (METRICS, "", 42, "Client metrics subscription name must not be empty"),
        (GROUP, "", 42, "Group name must not be empty"),
        (5, "x", 42, "Unsupported resource type: 5"),
    ],
)
def test_resource_without_settings_is_rejected_alone(kind: int, name: str, code: int, text: str) -> None:
    client = client_with_topic()
    result = describe(client, kind, name)
    assert (result.error_code, result.error_message, result.configs) == (code, text, [])


# -- changing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
def test_a_setting_is_set_and_deleted(version: int) -> None:
    client = client_with_topic()
    assert change(client, TOPIC, "orders", ("retention.ms", SET, "5"), version=version) == (0, None)
    assert stored(client) == {"retention.ms": "5"}
    assert change(client, TOPIC, "orders", ("retention.ms", DELETE, None), version=version) == (0, None)
    assert stored(client) == {}


def test_a_list_is_appended_to_from_its_default_and_subtracted_from() -> None:
    client = client_with_topic()
    assert change(client, TOPIC, "orders", ("cleanup.policy", APPEND, "compact")) == (0, None)
    assert stored(client) == {"cleanup.policy": "delete,compact"}
    assert change(client, TOPIC, "orders", ("cleanup.policy", APPEND, "compact")) == (0, None)
    assert stored(client) == {"cleanup.policy": "delete,compact"}
    assert change(client, TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete")) == (0, None)
    assert stored(client) == {"cleanup.policy": "compact"}


def test_validate_only_changes_nothing() -> None:
    client = client_with_topic()
    assert change(client, TOPIC, "orders", ("retention.ms", SET, "5"), validate_only=True) == (0, None)
    assert change(client, TOPIC, "orders", ("retention.ms", SET, "x"), validate_only=True)[0] == 40
    assert stored(client) == {}


TOPIC_REFUSALS = [
    (
        ("retention.ms", SET, "abc"),
        40,
        "Invalid value abc for configuration retention.ms: Not a number of type LONG",
    ),
    (
        ("min.insync.replicas", SET, "0"),
        40,
        "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1",
    ),
    (("retention.msx", SET, "1"), 40, "Unknown topic config name: retention.msx; did you mean retention.ms?"),
    (
        ("cleanup.policy", SET, "foo"),
        40,
        "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
    ),
    (("retention.ms", APPEND, "5"), 40, "Can't APPEND to key retention.ms because its type is not LIST."),
    (("retention.ms", SET, None), 42, "Null value not supported for : retention.ms"),
    (("retention.ms", 9, "5"), 42, "Unknown operation type 9"),
    (
        ("remote.storage.enable", SET, "true"),
        40,
        (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        ),
    ),
    (("leader.replication.throttled.replicas", SET, "x"), 40, "Invalid value x for configuration leader."),
]


@pytest.mark.parametrize(("operation", "code", "text"), TOPIC_REFUSALS)
def test_topic_rejects_unsupported_settings(
    operation: tuple[str, int, str | None], code: int, text: str
) -> None:
    client = client_with_topic()
    answered, message = change(client, TOPIC, "orders", operation)
    assert answered == code
    assert message is not None
    assert message.startswith(text)
    assert stored(client) == {}


@pytest.mark.parametrize(
    ("name", "operation", "code", "text"),
    [
        ("1", ("num.partitions", SET, "3"), 42, "Cannot update these configs dynamically: [num.partitions]"),
        ("1", ("log.retention.ms", SET, "abc"), 42, "Invalid value abc for configuration log.retention.ms"),
        ("", ("log.retention.ms", SET, "0"), 42, "log.retention.ms must be unlimited (-1)"),
        ("", ("cordoned.log.dirs", SET, "*"), 42, "Cannot update these configs at default cluster level"),
        ("7", ("log.retention.ms", SET, "1"), 42, "Unexpected broker id, expected 1, but received 7"),
        ("x", ("log.retention.ms", SET, "1"), 42, "Node id must be an integer, but it is: x"),
        ("1", ("min.insync.replicas", SET, "2"), 40, "Broker-level min.insync.replicas cannot be altered"),
        ("1", ("log.retenton.ms", SET, "1"), 40, "Unknown broker config name: log.retenton.ms; did you mean"),
    ],
)
def test_broker_rejects_changes_of_read_only_settings(
    name: str, operation: tuple[str, int, str | None], code: int, text: str
) -> None:
    client = client_with_topic()
    answered, message = change(client, BROKER, name, operation)
    assert answered == code
    assert message is not None
    assert message.startswith(text)


@pytest.mark.parametrize(
    ("kind", "name", "operation", "code", "text"),
    [
        (TOPIC, "nope", ("retention.ms", SET, "5"), 3, "The topic 'nope' does not exist."),
        (TOPIC, "", ("retention.ms", SET, "5"), 42, "Default topic resources are not allowed."),
        (GROUP, "", ("share.isolation.level", DELETE, None), 42, "Default group resources are not allowed."),
        (GROUP, "g", ("consumer.foo", SET, "1"), 40, "Unknown group config name: consumer.foo"),
        (
            GROUP,
            "g",
            ("consumer.session.timeout.ms", SET, "1"),
            40,
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            GROUP,
            "g",
            ("consumer.heartbeat.interval.ms", SET, "70000"),
            40,
            "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.",
        ),
        (METRICS, "", ("interval.ms", SET, "1000"), 42, "Subscription name can't be empty"),
        (METRICS, "m", ("foo", SET, "1"), 42, "Unknown client metrics configuration: foo"),
        (METRICS, "m", ("interval.ms", SET, "1"), 42, "Invalid value 1 for configuration interval.ms"),
        (METRICS, "m", ("match", SET, "foo"), 40, "Illegal client matching pattern: foo"),
        (METRICS, "m", ("match", SET, "client_id=["), 40, "Illegal client matching pattern: client_id=["),
        (5, "x", ("interval.ms", SET, "1"), 42, "Unknown resource type 5"),
    ],
)
def test_other_resources_reject_unsupported_settings(
    kind: int, name: str, operation: tuple[str, int, str | None], code: int, text: str
) -> None:
    answered, message = change(client_with_topic(), kind, name, operation)
    assert answered == code
    assert message is not None
    assert message.startswith(text)


def test_a_setting_named_twice_is_refused() -> None:
    client = client_with_topic()
    code, text = change(client, TOPIC, "orders", ("retention.ms", SET, "5"), ("retention.ms", SET, "6"))
    assert (code, stored(client)) == (42, {})
    assert text is not None
    assert text.startswith("Error due to duplicate config keys")


def test_more_settings_than_any_resource_has_are_refused_unseen() -> None:
    assert len(definitions.BROKER) + len(definitions.UNUSED) <= MAX_SETTINGS
    client, many = client_with_topic(), range(MAX_SETTINGS + 1)
    for code, text in (
        change(client, TOPIC, "orders", *((f"name.{number}", SET, "5") for number in many)),
        change(client, LOGGER, "1", *[("root", SET, "INFO")] * len(many)),
        replace(client, TOPIC, "orders", *((f"name.{number}", "5") for number in many)),
    ):
        assert code == ErrorCode.INVALID_REQUEST
        assert text == "1001 settings of one resource, and none has more than 1000: name each once."


def test_a_resource_named_twice_is_refused_and_does_not_hold_up_others() -> None:
    client = client_with_topic()
    client.decide(lambda image: create_topics(image, [NewTopic("other")], client.broker.policy))

    def resource(name: str) -> IncrementalAlterConfigsAlterConfigsResource:
        operations = [IncrementalAlterConfigsAlterableConfig("retention.ms", SET, "5")]
        return IncrementalAlterConfigsAlterConfigsResource(TOPIC, name, operations)

    request = IncrementalAlterConfigsRequest(
        resources=[resource(name) for name in ("orders", "other", "orders")]
    )
    responses = client.ask(incremental_alter_configs, request, 1).responses
    assert [response.error_code for response in responses] == [42, 0, 42]
    assert responses[0].error_message == "Each resource must appear at most once."
    assert (stored(client), stored(client, TOPIC, "other")) == ({}, {"retention.ms": "5"})


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_old_request_replaces_all_settings_of_a_topic(version: int) -> None:
    client = client_with_topic(segment_bytes="2000000")
    assert replace(client, TOPIC, "orders", ("retention.ms", "99"), version=version) == (0, None)
    assert stored(client) == {"retention.ms": "99"}
    assert replace(client, TOPIC, "orders", version=version) == (0, None)
    assert stored(client) == {}


def test_old_request_has_the_same_rejections_as_kafka() -> None:
    client = client_with_topic()
    assert replace(client, TOPIC, "orders", ("retention.ms", None)) == (
        42,
        "Null value not supported for : retention.ms",
    )
    twice = (("retention.ms", "1"), ("retention.ms", "2"))
    assert replace(client, TOPIC, "orders", *twice) == (42, "Error due to duplicate config keys")
    assert replace(client, LOGGER, "1", ("root", "INFO")) == (42, "Unknown resource type 8")
    assert replace(client, TOPIC, "nope") == (3, "The topic 'nope' does not exist.")
    assert replace(client, BROKER, "1", ("num.partitions", "3"))[0] == 42


# -- loggers -------------------------------------------------------------------------------------------


def test_loggers_have_kafkas_level_names_and_can_be_set() -> None:
    client = client_with_topic()
    name = "barnabas.test.configs"
    logger = logging.getLogger(name)
    try:
        assert change(client, LOGGER, "1", (name, SET, "TRACE")) == (0, None)
        found = row(client, LOGGER, "1", name)
        assert (found.value, found.config_source, found.config_type) == ("TRACE", 6, 0)
        assert change(client, LOGGER, "1", (name, SET, "FATAL")) == (0, None)
        assert logger.level == logging.CRITICAL
        assert change(client, LOGGER, "1", (name, DELETE, None)) == (0, None)
        assert logger.level == logging.NOTSET
    finally:
        logger.setLevel(logging.NOTSET)
    assert "root" in {found.name for found in describe(client, LOGGER, "1").configs}


@pytest.mark.parametrize(
    ("node", "operation", "code", "text"),
    [
        ("1", ("root", SET, "LOUD"), 40, "Cannot set the log level of root to LOUD"),
        ("1", ("nope.logger", SET, "INFO"), 40, "Logger nope.logger does not exist!"),
        ("1", ("root", DELETE, None), 42, "Removing the log level of the root logger is not allowed"),
        ("1", ("root", APPEND, "INFO"), 42, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        ("", ("root", SET, "INFO"), 42, "Node id must be an integer, but it is: "),
        ("9", ("root", SET, "INFO"), 42, "Unexpected node id. Expected 1, but received 9"),
    ],
)
def test_logger_rejects_unknown_levels(
    node: str, operation: tuple[str, int, str | None], code: int, text: str
) -> None:
    level = logging.getLogger().level
    answered, message = change(client_with_topic(), LOGGER, node, operation)
    assert (answered, logging.getLogger().level) == (code, level)
    assert message is not None
    assert message.startswith(text)


# -- listing -------------------------------------------------------------------------------------------


def listed(client: Client, *kinds: int, version: int = 1) -> list[tuple[int, str]]:
    response = client.ask(
        list_config_resources, ListConfigResourcesRequest(resource_types=list(kinds)), version
    )
    assert response.error_code == 0
    return [(resource.resource_type, resource.resource_name) for resource in response.config_resources]


def test_resources_with_settings_are_listed_by_type() -> None:
    client = client_with_topic()
    change(client, METRICS, "m", ("interval.ms", SET, "1000"))
    change(client, GROUP, "g", ("consumer.session.timeout.ms", SET, "46000"))
    assert listed(client, version=0) == [(METRICS, "m")]
    assert set(listed(client)) == {
        (TOPIC, "orders"), (BROKER, "1"), (LOGGER, "1"), (METRICS, "m"), (GROUP, "g")
    }  # fmt: skip
    assert listed(client, TOPIC) == [(TOPIC, "orders")]
    change(client, METRICS, "m", ("interval.ms", DELETE, None))
    assert listed(client, METRICS) == []


def test_an_unknown_kind_cannot_be_listed() -> None:
    request = ListConfigResourcesRequest(resource_types=[5])
    response = client_with_topic().ask(list_config_resources, request, 1)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
