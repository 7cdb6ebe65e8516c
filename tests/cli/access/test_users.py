from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from barnabas.cluster.image import ScramUser
from barnabas.security.authn.credentials import ScramMechanism
from barnabas.security.authn.scram import matches
from barnabas.testing import EmbeddedBroker
from tests.cli.access.conftest import port_of
from tests.support.cli import Cli
from tests.support.sasl import login, sasl_settings


def can_log_in(broker: EmbeddedBroker, name: str, password: str, mechanism: str = "SCRAM-SHA-512") -> bool:
    address = f"127.0.0.1:{port_of(broker, 'SASL_PLAINTEXT')}"
    errors: list[object] = []
    settings: dict[str, Any] = {**login(mechanism, name, password), "error_cb": errors.append}
    admin = AdminClient({"bootstrap.servers": address, **settings})
    try:
        admin.list_topics(timeout=30 if password == "right" else 5)
    except Exception:
        return False
    return True


def test_a_user_is_created_with_a_password_that_is_printed_once(cli: Cli, guarded: EmbeddedBroker) -> None:
    made = cli.ok("users", "create", "alice")
    password = made.out.strip()
    assert len(password) >= 24
    assert password not in made.err
    for mechanism in ScramMechanism:
        kept = guarded.broker.image.scram_credentials[ScramUser("alice", mechanism)]
        assert matches(kept, mechanism, password)
    shown = cli.ok("users", "list", "-o", "json")
    assert {
        "user": "alice",
        "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"],
        "iterations": [4096, 4096],
    } in shown.json
    assert password not in shown.out
    again = cli("users", "create", "alice")
    assert (again.code, "users password alice" in again.err) == (1, True)
    assert matches(
        guarded.broker.image.scram_credentials[ScramUser("alice", 1)], ScramMechanism.SHA_256, password
    )
    cli.ok("users", "delete", "alice", "--yes")
    assert not any(user.name == "alice" for user in guarded.broker.image.scram_credentials)


def test_a_given_password_is_not_printed_and_logs_in(
    cli: Cli, guarded: EmbeddedBroker, tmp_path: Path
) -> None:
    secret = tmp_path / "password"
    secret.write_text("right\n")
    made = cli.ok("users", "create", "bob", "--password-file", str(secret), "--mechanism", "SCRAM-SHA-512")
    assert "right" not in made.out + made.err
    assert can_log_in(guarded, "bob", "right")
    changed = cli.ok("users", "password", "bob", "--password-file", "-", "-o", "json", stdin="another\n")
    assert changed.json == {"user": "bob", "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"]}
    kept = guarded.broker.image.scram_credentials[ScramUser("bob", ScramMechanism.SHA_512)]
    assert matches(kept, ScramMechanism.SHA_512, "another")
    cli.ok("users", "delete", "bob", "--yes")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("password", "nobody"), "user nobody does not exist"),
        (("delete", "nobody", "--yes"), "user nobody does not exist"),
    ],
)
def test_a_missing_user_is_an_error(cli: Cli, command: tuple[str, ...], message: str) -> None:
    ended = cli("users", *command)
    assert (ended.code, message in ended.err) == (1, True)


def test_usage_errors_have_a_remedy(cli: Cli, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    cases = {
        ("users", "create", "a", "--password-file", str(empty)): "first line must be the password",
        ("users", "create", "a", "--data", "x", "--zookeeper", "y"): "not both",
        ("users", "create", "a", "--set", "x=y"): "need --data or --zookeeper",
        ("users", "create", "a", "--iterations", "1000"): "4096",
    }
    for arguments, words in cases.items():
        ended = cli(*arguments)
        assert (ended.code, words in ended.err) == (2, True), ended


def test_the_first_users_of_a_node_are_made_before_it_starts(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    password = cli.ok("users", "create", "admin", "--data", str(folder)).out.strip()
    secret = tmp_path / "password"
    secret.write_text("right")
    cli.ok("users", "create", "broker", "--data", str(folder), "--password-file", str(secret))
    listed = cli.ok("users", "list", "--data", str(folder), "-o", "json").json
    assert [user["user"] for user in listed] == ["admin", "broker"]
    with EmbeddedBroker(data_dir=folder, settings=sasl_settings()) as running:
        kept = running.broker.image.scram_credentials
        assert matches(kept[ScramUser("admin", 1)], ScramMechanism.SHA_256, password)
        assert can_log_in(running, "broker", "right")
        refused = cli("users", "list", "--data", str(folder))
        assert refused.code == 1
        assert "another broker is using" in refused.err
    cli.ok("users", "delete", "admin", "--data", str(folder), "--yes")
    cli.ok("users", "password", "broker", "--data", str(folder))
    with EmbeddedBroker(data_dir=folder) as running:
        assert {user.name for user in running.broker.image.scram_credentials} == {"broker"}
        assert not matches(
            running.broker.image.scram_credentials[ScramUser("broker", 1)], ScramMechanism.SHA_256, "right"
        )
