"""Error messages of commands: the problem, the value and the remedy."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.producing import partition_sender
from barnabas.common.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cli]:
    with EmbeddedBroker({"authorizer.class.name": STANDARD, "super.users": "User:admin"}) as broker:
        yield Cli(broker.bootstrap_servers)


def test_the_version_is_an_option_too(cli: Cli) -> None:
    assert cli.ok("--version").out == cli.ok("version").out
    assert "barnabas 0." in cli.ok("--version").out


def test_a_port_without_a_host_is_refused_with_the_correct_form(cli: Cli, tmp_path: Path) -> None:
    ended = cli("serve", "--data", str(tmp_path), "--listen", "19093")
    assert ended.code == 2
    assert "127.0.0.1:19093" in ended.err


def test_a_file_as_data_folder_is_a_wrong_option(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = cli("serve", "--data", str(tmp_path / "file"), "--listen", "127.0.0.1:0")
    assert ended.code == 2
    assert "file is not a folder" in ended.err
    assert "STORAGE" not in ended.err


def test_a_port_in_use_names_the_next_step(cli: Cli, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = cli("serve", "--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{port}")
    assert ended.code == 1
    assert f"another process uses port {port}" in ended.err
    assert "choose another port" in ended.err


def test_secrets_for_console_yml_are_printed_to_standard_output(cli: Cli) -> None:
    assert cli.ok("console", "password", stdin="secret\n").out.startswith("scrypt$")
    assert "digest: " in cli.ok("console", "token").out


def test_a_denial_names_the_principal_the_operation_and_the_command_that_grants_it(guarded: Cli) -> None:
    ended = guarded("produce", "orders", "--value", "x")
    assert ended.code == 1
    assert "User:ANONYMOUS has no permission to write" in ended.err
    assert "`barnabas acls allow User:ANONYMOUS write --topic NAME`" in ended.err
    ended = guarded("topics", "create", "orders")
    assert "User:ANONYMOUS has no permission to create" in ended.err


def test_advice_for_compacted_topics_is_given_by_purge_only(cli: Cli) -> None:
    cli.ok("topics", "create", "compacted", "--set", "cleanup.policy=compact")
    cli.ok("produce", "compacted", "--key", "k", "--value", "v")
    assert "cleanup.policy contains `delete`" in cli("topics", "purge", "compacted", "--yes").err


def test_produce_reports_why_it_waits(
    broker: EmbeddedBroker, cli: Cli, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(partition_sender, "WARNING_DELAY", 0.0)
    cli.ok("topics", "create", "full")
    broker.inject(ApiKey.PRODUCE, ErrorCode.KAFKA_STORAGE_ERROR, times=2)
    cli.ok("produce", "full", "--value", "x")
    (warning,) = [record.getMessage() for record in caplog.records if "full-0" in record.getMessage()]
    assert "KAFKA_STORAGE_ERROR" in warning
    assert "retries for" in warning
