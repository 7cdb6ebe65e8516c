"""Options: known ones are parsed, unknown ones rejected with a suggestion."""

import pickle

import pytest

from barnabas.spark.client_settings import ClientSettingError
from barnabas.spark.options import OptionError, Options, parse_duration_ms
from barnabas.spark.source.settings import SourceSettings

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def settings(streaming: bool = True, /, **options: str) -> SourceSettings:
    return SourceSettings.parse({**BASE, **options}, streaming=streaming)


def test_names_are_understood_in_any_case() -> None:
    options = {"KAFKA.BOOTSTRAP.SERVERS": "h:1", "SUBSCRIBE": "a, b", "FAILONDATALOSS": "FALSE"}
    parsed = SourceSettings.parse(options, streaming=True)

    assert parsed.client.bootstrap == "h:1"
    assert parsed.subscription.topics == ("a", "b")
    assert not parsed.fail_on_data_loss


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("startingOffset", "startingOffsets"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("kafka.bootstrap.server", "kafka.bootstrap.servers"),
        ("value.formt", "value.format"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_one(name: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"unknown option .*'{nearest}'"):
        settings(**{name: "x"})


def test_an_option_of_the_sink_is_unknown_to_the_source() -> None:
    with pytest.raises(OptionError, match="unknown option 'checkpointLocation' of the source"):
        settings(checkpointLocation="/tmp/x")


@pytest.mark.parametrize("name", ["auto.offset.reset", "enable.auto.commit", "value.deserializer"])
def test_operations_that_break_sparks_guarantees_are_rejected_as_in_spark(name: str) -> None:
    with pytest.raises(ClientSettingError, match=f"'kafka.{name}' is not supported"):
        settings(**{f"kafka.{name}": "x"})


LOGIN = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": 'x.PlainLoginModule required username="me" password="hush";',
    "kafka.ssl.truststore.location": "/ca.pem",
}


def test_tls_and_sasl_reach_tasks_and_do_not_show() -> None:
    parsed = settings(**LOGIN)
    arrived = pickle.loads(pickle.dumps(parsed))

    assert arrived.client.security == parsed.client.security
    assert arrived.client.link["security"].sasl.password.text == "hush"
    assert "hush" not in repr(parsed) + repr(parsed.client.link)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("security.protocol", "TLS", "option 'kafka.security.protocol' must be one of PLAINTEXT, SSL"),
        ("sasl.mechanism", "GSSAPI", "option 'kafka.sasl.mechanism' GSSAPI .* is not supported"),
        ("ssl.truststor.location", "x", "'kafka.ssl.truststor.location' is not known; did you mean"),
        ("sasl.jaas.config", "hush", "option 'kafka.sasl.jaas.config' must be MODULE required"),
    ],
)
def test_a_wrong_setting_of_security_is_named(name: str, value: str, text: str) -> None:
    with pytest.raises(ClientSettingError, match=text) as caught:
        settings(**{**LOGIN, f"kafka.{name}": value})
    assert "hush" not in str(caught.value)


def test_an_option_does_not_give_the_drivers_environment_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Authors of options, for example in SQL, may not be allowed to read the driver's files and environment."""
    monkeypatch.delenv("BARNABAS_REFERENCES", raising=False)
    monkeypatch.setenv("CLOUD_SECRET", "hush")
    referring = {
        **LOGIN,
        "kafka.sasl.jaas.config": LOGIN["kafka.sasl.jaas.config"].replace("hush", "${env:CLOUD_SECRET}"),
    }
    with pytest.raises(ClientSettingError, match="BARNABAS_REFERENCES=env,file in the environment"):
        settings(**referring)
    monkeypatch.setenv("BARNABAS_REFERENCES", "env")
    assert settings(**referring).client.link["security"].sasl.password.text == "hush"


def test_security_settings_without_a_protocol_are_reported() -> None:
    with pytest.raises(ClientSettingError, match=r"has no effect unless security\.protocol says"):
        settings(**{"kafka.ssl.truststore.location": "/ca.pem"})


def test_settings_without_effect_are_accepted() -> None:
    assert settings(**{"kafka.session.timeout.ms": "10000", "kafka.max.poll.records": "5"})


def test_exactly_one_way_to_choose_partitions() -> None:
    with pytest.raises(OptionError, match="only one of them can be given, not subscribe, subscribePattern"):
        settings(subscribePattern="a.*")
    with pytest.raises(OptionError, match="one of them must be given"):
        SourceSettings.parse({"kafka.bootstrap.servers": "h:1"}, streaming=True)


def test_a_missing_address_is_named() -> None:
    with pytest.raises(ClientSettingError, match=r"kafka\.bootstrap\.servers"):
        SourceSettings.parse({"subscribe": "a"}, streaming=True)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"endingOffsets": "latest"}, "a stream has no end"),
        ({"minPartitions": "0"}, "'minPartitions' must be at least 1"),
        ({"maxOffsetsPerTrigger": "many"}, "must be a whole number"),
        ({"failOnDataLoss": "maybe"}, "must be true or false"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"}, "is higher than"),
        ({"maxTriggerDelay": "soon"}, "not a valid duration"),
        ({"kafka.isolation.level": "serializable"}, "must be read_committed or read_uncommitted"),
    ],
)
def test_values_that_cannot_be_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        settings(**options)


def test_progress_is_committed_to_a_configurable_group() -> None:
    assert settings().group == "spark-barnabas-orders"
    assert settings(groupIdPrefix="etl").group == "etl-orders"
    assert settings(**{"kafka.group.id": "mine"}).group == "mine"
    assert settings(commitProgress="false").group is None


def test_durations_are_sparks() -> None:
    assert [parse_duration_ms(text) for text in ("15m", "30s", "500ms", "7", "2h")] == [
        900_000,
        30_000,
        500,
        7,
        7_200_000,
    ]


def test_defaults_are_those_of_the_catalogue() -> None:
    options = Options(BASE, "source")

    assert options.flag("failOnDataLoss")
    assert options.text("mode") == "PERMISSIVE"
    assert options.number("maxOffsetsPerTrigger") is None
