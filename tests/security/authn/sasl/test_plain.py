"""PLAIN without a connection."""

from __future__ import annotations

import hmac

import pytest

from barnabas.security.authn.jaas import parse_jaas
from barnabas.security.authn.sasl.login import Authenticated, AuthenticationFailedError
from barnabas.security.authn.sasl.plain import PlainExchange, listed_users
from barnabas.security.principal import Principal

MODULE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="x"'
USERS = listed_users(parse_jaas(MODULE + ' user_alice="her \\"secret\\"" user_bob="his";'))


def refusal(message: bytes) -> AuthenticationFailedError:
    with pytest.raises(AuthenticationFailedError) as caught:
        PlainExchange(USERS).step(message)
    return caught.value


@pytest.mark.parametrize("authorization_id", [b"", b"alice"])
def test_the_users_of_a_jaas_text_are_known_by_their_passwords(authorization_id: bytes) -> None:
    done = PlainExchange(USERS).step(authorization_id + b'\0alice\0her "secret"')

    assert isinstance(done, Authenticated)
    assert done.principal == Principal("User", "alice")


def test_a_login_is_current_until_its_users_password_changes() -> None:
    users = listed_users(parse_jaas(MODULE + ' user_alice="first" user_bob="his";'))
    alice, bob = (PlainExchange(users).step(token) for token in (b"\0alice\0first", b"\0bob\0his"))
    assert isinstance(alice, Authenticated)
    assert isinstance(bob, Authenticated)
    assert alice.is_current is not None
    assert bob.is_current is not None
    assert alice.is_current()

    users.replace(listed_users(parse_jaas(MODULE + ' user_alice="second" user_bob="his";')))

    assert not alice.is_current()
    assert bob.is_current()
    with pytest.raises(AuthenticationFailedError):
        PlainExchange(users).step(b"\0alice\0first")


@pytest.mark.parametrize(
    "message",
    [b"\0alice\0his", b"\0nobody\0his", b"\0b\0x", b"\0alice\0", b"\0\0his", b"alice", b"\xff\0a\0b", b""],
)
def test_other_logins_are_rejected_without_password_details(message: bytes) -> None:
    error = refusal(message)

    assert "his" not in str(error).split()
    assert "his" not in error.detail.split()


def test_wrong_password_and_unknown_user_get_the_same_error() -> None:
    assert str(refusal(b"\0alice\0no")) == str(refusal(b"\0nobody\0no"))


def test_cve_2017_12610_clients_cannot_impersonate_another_user() -> None:
    assert "authorization id that is different" in str(refusal(b'bob\0alice\0her "secret"'))


def test_cve_2021_38153_password_comparison_takes_constant_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[tuple[int, int]] = []
    right = hmac.compare_digest

    def noted(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return right(one, other)

    monkeypatch.setattr("barnabas.security.authn.sasl.plain.hmac.compare_digest", noted)
    for name, password in (("alice", "h"), ("alice", "her" * 1000), ("nobody", "x")):
        assert not USERS.is_right(name, password)

    assert compared == [(32, 32)] * 3
