from __future__ import annotations

import pytest

from barnabas.cli.access.quotas import parse_rate
from barnabas.security.quotas.filters import QuotaEntity
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli


def test_limits_are_set_listed_and_removed(cli: Cli, guarded: EmbeddedBroker) -> None:
    done = cli.ok(
        "quotas", "set", "--user", "alice", "--produce", "10MB/s", "--fetch", "20MiB/s", "--requests", "200%"
    )
    assert done.err.startswith("User alice may take producer_byte_rate=10000000")
    cli.ok("quotas", "set", "--user", "default", "--client-id", "default", "--mutations", "0.5")
    cli.ok("quotas", "set", "--ip", "10.0.0.1", "--connections", "20")
    assert guarded.broker.image.client_quotas == {
        QuotaEntity("alice"): {
            "producer_byte_rate": 10_000_000.0,
            "consumer_byte_rate": 20.0 * 1024 * 1024,
            "request_percentage": 200.0,
        },
        QuotaEntity("", ""): {"controller_mutation_rate": 0.5},
        QuotaEntity(ip="10.0.0.1"): {"connection_creation_rate": 20.0},
    }
    listed = cli.ok("quotas", "list", "-o", "json").json
    assert {
        "user": "default",
        "client_id": "default",
        "ip": None,
        "limits": {"controller_mutation_rate": 0.5},
    } in listed
    assert "request_percentage=200" in cli.ok("quotas", "list").out
    cli.ok("quotas", "remove", "--user", "alice", "--limit", "request_percentage")
    assert "request_percentage" not in guarded.broker.image.client_quotas[QuotaEntity("alice")]
    cli.ok("quotas", "remove", "--user", "alice")
    cli.ok("quotas", "remove", "--user", "default", "--client-id", "default")
    cli.ok("quotas", "remove", "--ip", "10.0.0.1")
    assert not guarded.broker.image.client_quotas
    assert "No quotas are set" in cli.ok("quotas", "list").err


@pytest.mark.parametrize(
    ("text", "bytes_a_second"),
    [
        ("10MB/s", 10e6),
        ("512KiB/s", 512 * 1024),
        ("1.5GB", 1.5e9),
        ("1000", 1000),
        ("7 b/s", 7),
        ("2k", 2000),
    ],
)
def test_rates_are_read_as_people_write_them(text: str, bytes_a_second: float) -> None:
    assert parse_rate(text, "--produce") == bytes_a_second


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("set", "--user", "a"), "give at least one of --produce"),
        (("set", "--produce", "1MB/s"), "give --user, --client-id or --ip"),
        (("set", "--user", "a", "--ip", "::1", "--produce", "1"), "--ip cannot be combined"),
        (("set", "--user", "a", "--produce", "much"), "not a valid rate"),
        (("set", "--user", "a", "--requests", "half"), "not a valid percentage"),
    ],
)
def test_usage_errors_have_a_remedy(cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    ended = cli("quotas", *arguments)
    assert (ended.code, words in ended.err) == (2, True), ended


def test_a_limit_that_cannot_be_is_refused(cli: Cli) -> None:
    ended = cli("quotas", "set", "--user", "a", "--connections", "5")
    assert (ended.code, "connection_creation_rate" in ended.err) == (1, True)
    assert cli("quotas", "set", "--ip", "example.org", "--connections", "5").code == 1
