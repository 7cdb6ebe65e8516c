from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker
from tests.cli.access.conftest import port_of
from tests.support.cli import Cli
from tests.support.sasl import add_user, java_login, properties

HOUR = 3_600_000


@pytest.fixture
def alice(guarded: EmbeddedBroker, tmp_path: Path) -> list[str]:
    """Options with which commands log in."""
    add_user(guarded, "carol", "secret")
    file = tmp_path / "carol.properties"
    file.write_text(properties(java_login("SCRAM-SHA-256", "carol", "secret")))
    return ["-b", f"127.0.0.1:{port_of(guarded, 'SASL_PLAINTEXT')}", "--command-config", str(file)]


def test_a_token_is_made_listed_renewed_and_ended(
    cli: Cli, guarded: EmbeddedBroker, alice: list[str]
) -> None:
    made = cli.ok("tokens", "create", "--lifetime", "12h", "--renewer", "User:bob", *alice)
    password = made.out.strip()
    (token,) = guarded.broker.image.delegation_tokens.values()
    assert (token.owner, token.renewers, token.max_ms - token.issued_ms) == (
        "User:carol",
        ("User:bob",),
        12 * HOUR,
    )
    assert token.token_id in made.err
    assert password not in made.err
    listed = cli.ok("tokens", "list", "-o", "json", *alice)
    assert [(one["id"], one["owner"], one["renewers"]) for one in listed.json] == [
        (token.token_id, "User:carol", ["User:bob"])
    ]
    assert password not in listed.out + cli.ok("tokens", "list", *alice).out
    cli.ok("tokens", "renew", "-", "--for", "1h", *alice, stdin=password + "\n")
    (renewed,) = guarded.broker.image.delegation_tokens.values()
    assert renewed.expires_ms < token.expires_ms
    cli.ok("tokens", "expire", password, "--after", "30m", *alice)
    cli.ok("tokens", "expire", password, *alice)
    assert not guarded.broker.image.delegation_tokens
    assert "No visible tokens" in cli.ok("tokens", "list", *alice).err


def test_rejections_have_a_remedy(cli: Cli, alice: list[str]) -> None:
    assert "log in as a user" in cli("tokens", "create").err
    assert "unknown token" in cli("tokens", "renew", "AAAA", *alice).err
    assert "base64" in cli("tokens", "expire", "what?", *alice).err
    assert cli("tokens", "create", "--lifetime", "long", *alice).code == 2
    assert cli("tokens", "create", "--owner", "bob", *alice).code == 2
    assert "CreateTokens" in cli("tokens", "create", "--owner", "User:bob", *alice).err
