from __future__ import annotations

import pytest

from barnabas.security.authz.acls import AclBinding
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli


def rules(broker: EmbeddedBroker) -> set[AclBinding]:
    return set(broker.broker.image.acls)


@pytest.fixture(autouse=True)
def no_rules(guarded: EmbeddedBroker, cli: Cli) -> None:
    for principal in ("User:alice", "User:eve"):
        cli.ok("acls", "remove", principal, "--yes")
    assert not rules(guarded)


def test_operations_go_to_the_resources_that_know_them(cli: Cli, guarded: EmbeddedBroker) -> None:
    made = cli.ok(
        "acls", "allow", "User:alice", "read,write", "--topic", "orders.*", "--group", "orders", "-o", "json"
    ).json
    assert {(row["resource"], row["name"], row["pattern"], row["operation"]) for row in made} == {
        ("topic", "orders.*", "prefixed", "read"),
        ("topic", "orders.*", "prefixed", "write"),
        ("group", "orders", "literal", "read"),
    }
    assert rules(guarded) == {
        AclBinding(2, "orders.", 4, "User:alice", "*", 3, 3),
        AclBinding(2, "orders.", 4, "User:alice", "*", 4, 3),
        AclBinding(3, "orders", 3, "User:alice", "*", 3, 3),
    }


def test_a_star_alone_means_everything_and_hosts_may_be_networks(cli: Cli, guarded: EmbeddedBroker) -> None:
    cli.ok("acls", "deny", "User:eve", "all", "--topic", "*", "--cluster", "--host", "10.0.0.0/8")
    assert rules(guarded) == {
        AclBinding(2, "*", 3, "User:eve", "10.0.0.0/8", 2, 2),
        AclBinding(4, "kafka-cluster", 3, "User:eve", "10.0.0.0/8", 2, 2),
    }


def test_rules_are_listed_by_effect_and_removed_as_created(cli: Cli, guarded: EmbeddedBroker) -> None:
    cli.ok("acls", "allow", "User:alice", "read,write", "--topic", "orders.*", "--topic", "payments")
    cli.ok("acls", "deny", "User:eve", "read", "--topic", "*")
    about = cli.ok("acls", "list", "--topic", "orders.eu", "-o", "json").json
    assert {(row["principal"], row["permission"]) for row in about} == {
        ("User:alice", "allow"),
        ("User:eve", "deny"),
    }
    assert "payments" not in cli.ok("acls", "list", "--topic", "orders.eu").out
    assert len(cli.ok("acls", "list", "--principal", "User:alice", "-o", "json").json) == 4
    assert "No matching rules" in cli.ok("acls", "list", "--group", "x").err
    kept = cli("acls", "remove", "User:alice", "write", "--topic", "orders.*", stdin="n\n")
    assert (kept.code, len(rules(guarded))) == (1, 5)
    cli.ok("acls", "remove", "User:alice", "write", "--topic", "orders.*", "--yes")
    assert AclBinding(2, "orders.", 4, "User:alice", "*", 4, 3) not in rules(guarded)
    removed = cli.ok("acls", "remove", "User:alice", "--yes", "-o", "json").json
    assert len(removed) == 3
    assert len(rules(guarded)) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("allow", "alice", "read", "--topic", "x"), "User:alice"),
        (("allow", "User:alice", "reed", "--topic", "x"), "not a valid operation"),
        (("allow", "User:alice", "read"), "a resource is required"),
        (("allow", "User:alice", "write", "--group", "x"), "is not an operation on group"),
        (("allow", "User:alice", "read", "--topic", "x", "--host", "example.org"), "is not a valid host"),
        (("list", "--topic", "x", "--group", "y"), "not both"),
        (("explain", "User:alice", "all", "x"), "exactly one operation"),
        (("explain", "User:alice", "read", "x", "--kind", "queue"), "is not one of"),
        (("explain", "User:alice", "read"), "the name of the topic is missing"),
    ],
)
def test_usage_errors_have_a_remedy(cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    ended = cli("acls", *arguments)
    assert (ended.code, words in ended.err) == (2, True), ended


def test_a_decision_is_explained_by_the_rule_behind_it(cli: Cli) -> None:
    cli.ok("acls", "allow", "User:alice", "write", "--topic", "orders.*")
    cli.ok("acls", "deny", "User:alice", "write", "--topic", "orders.eu", "--host", "10.0.0.0/8")

    def explained(*arguments: str) -> tuple[bool, str]:
        facts = cli.ok("acls", "explain", *arguments, "-o", "json").json
        return facts["allowed"], facts["because"]

    assert explained("User:alice", "write", "orders.us") == (
        True,
        "User:alice is allowed write on topic orders.* from any host",
    )
    assert explained("User:alice", "describe", "orders.us")[0]
    assert explained("User:alice", "write", "orders.eu", "--host", "10.1.2.3") == (
        False,
        "User:alice is denied write on topic orders.eu from 10.0.0.0/8",
    )
    assert explained("User:bob", "write", "orders.eu") == (
        False,
        "ACLs exist for this resource, and none of them allows it",
    )
    assert "no ACL matches this group" in explained("User:bob", "read", "g", "--kind", "group")[1]
    assert explained("User:root", "alter", "--kind", "cluster") == (
        True,
        "it is one of super.users, which are allowed everything",
    )
    assert "denied: " in cli.ok("acls", "explain", "User:bob", "write", "orders.eu").err


def test_missing_authorizer_is_reported(broker: EmbeddedBroker) -> None:
    ended = Cli(broker.bootstrap_servers)("acls", "allow", "User:alice", "read", "--topic", "x")
    assert ended.code == 1
    assert "authorizer.class.name" in ended.err
