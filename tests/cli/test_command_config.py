"""`--command-config`: commands over TLS and SASL, against Apache Kafka."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from barnabas.cli import options as command_config
from barnabas.cli.main import make_app
from barnabas.security.authn.credentials import Secret
from tests.support.cli import Cli
from tests.support.kafka.jars import requires_java
from tests.support.kafka.secured import SCRAM_LOGIN, SecuredKafka


@pytest.fixture
def secured(secured_kafka: SecuredKafka) -> Cli:
    return Cli(secured_kafka.address("SECURE"))


@pytest.fixture
def file(secured_kafka: SecuredKafka, tmp_path: Path) -> Path:
    login = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_jaas_config": SCRAM_LOGIN}
    settings = secured_kafka.settings("SECURE", **login)
    path = tmp_path / "client.properties"
    lines = [f"{name}={value}".replace("\\", "\\\\") for name, value in settings.items()]
    path.write_text("\n".join(["# as for Kafka's tools", "acks=all", *lines]))
    return path


@requires_java
def test_commands_use_the_file(secured: Cli, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ("--command-config", str(file))
    secured.ok("topics", "create", "safely", *chosen)
    secured.ok("produce", "safely", *chosen, stdin="hello\n")
    read = secured.ok("consume", "safely", "--from", "beginning", "--exit-at-end", *chosen)
    assert "hello" in read.out

    monkeypatch.setenv("BARNABAS_COMMAND_CONFIG", str(file))
    listed = secured.ok("topics", "list", "-o", "json").json
    assert "safely" in [topic["name"] for topic in listed]


@requires_java
def test_rejected_command_reports_the_reason(secured: Cli, file: Path) -> None:
    file.write_text(file.read_text().replace("al=", "hush="))
    ended = secured("topics", "list", "--command-config", str(file))
    assert ended.code == 1
    assert "rejected this client (SCRAM-SHA-512)" in ended.err
    assert "hush=" not in ended.err

    ended = secured("topics", "list")
    assert ended.code == 1
    assert "uses TLS on this port: set security.protocol to SSL or SASL_SSL" in ended.err


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "--command-config names"),
        ("security.protocol=TLS", "security.protocol must be one of PLAINTEXT, SSL"),
        ("sasl.password=hush", "sasl.password has no effect unless security.protocol says"),
        (
            "security.protocol=SSL\nssl.ca.location=/not/there",
            "ssl.ca.location names /not/there, which cannot be read",
        ),
    ],
)
def test_a_wrong_file_is_wrong_use(cli: Cli, tmp_path: Path, content: str | None, text: str) -> None:
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_text(content)
    ended = cli("topics", "list", "--command-config", str(file))

    assert ended.code == 2
    assert text in ended.err
    assert "hush" not in ended.err


def test_one_command_does_not_inherit_the_file_of_another(cli: Cli, tmp_path: Path) -> None:
    assert cli("topics", "list", "--command-config", str(tmp_path / "gone")).code == 2
    cli.ok("topics", "list")


def test_every_command_that_talks_to_brokers_has_it() -> None:
    for name, command in _commands(typer.main.get_command(make_app())):
        options = [option for parameter in command.params for option in parameter.opts]  # type: ignore[attr-defined]
        assert options.count("--command-config") == options.count("--bootstrap-server"), name


def _commands(group: object) -> Iterator[tuple[str, object]]:
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            yield from _commands(command)
        else:
            yield name, command


def test_secret_may_be_set_in_the_environment_instead_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    login = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=me\n"
    file.write_text(login + "sasl.password=${env:THE_PASSWORD}\n")
    monkeypatch.setenv("THE_PASSWORD", "hush")
    monkeypatch.setattr(command_config, "command_config", lambda: file)
    security = command_config.command_security()
    assert security.sasl is not None
    assert security.sasl.password == Secret("hush")
