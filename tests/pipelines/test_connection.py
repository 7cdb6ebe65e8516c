"""Broker and login settings in a pipeline's configuration."""

from pathlib import Path

import pytest

from barnabas.client.security.settings import PLAINTEXT, SecurityProtocol
from barnabas.pipelines.connection import connection_options, security_of, settings_from
from barnabas.security.authn.credentials import Secret
from barnabas.spark.errors import PipelineError

CONFIGURATION = {
    "barnabas.bootstrap.servers": "h:1",
    "barnabas.security.protocol": "SASL_PLAINTEXT",
    "barnabas.sasl.mechanism": "PLAIN",
    "barnabas.sasl.username": "me",
    "barnabas.sasl.password": "${env:THE_PASSWORD}",
    "orders.topic": "orders",
    "spark.sql.shuffle.partitions": "2",
}


def test_options_name_the_secret_and_do_not_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_PASSWORD", "hush")

    assert connection_options(CONFIGURATION) == {
        "kafka.bootstrap.servers": "h:1",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "me",
        "kafka.sasl.password": "${env:THE_PASSWORD}",
    }
    security = security_of(CONFIGURATION)
    assert security.sasl is not None
    assert security.sasl.password == Secret("hush")


def test_without_settings_there_is_neither_tls_nor_sasl() -> None:
    assert security_of({"barnabas.bootstrap.servers": "h:1"}) == PLAINTEXT


def test_errors_use_the_name_in_the_file() -> None:
    with pytest.raises(
        PipelineError, match=r"barnabas\.sasl\.password names the environment variable THE_PASSWORD"
    ):
        security_of(CONFIGURATION)


def test_a_file_of_settings_is_referred_to_and_not_copied(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nssl.keystore.password=hush\nacks=all\n")
    settings = settings_from(file)

    assert set(settings) == {"barnabas.security.protocol", "barnabas.ssl.keystore.password"}
    assert "hush" not in str(settings)
    assert security_of(settings).protocol is SecurityProtocol.SSL
