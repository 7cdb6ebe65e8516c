"""States of an authenticating connection."""

from __future__ import annotations

import pytest

from barnabas.security.authn.sasl.login import (
    Authenticated,
    AuthenticationFailedError,
    Challenge,
    Offered,
    OutOfOrderError,
    SaslLogin,
    UnsupportedMechanismError,
)
from barnabas.security.principal import Principal


class Echo:
    """Believes every name after one more question."""

    def __init__(self, expires_ms: int | None = None) -> None:
        self._asked = False
        self._expires_ms = expires_ms

    def blocks(self, message: bytes) -> bool:
        return False

    def step(self, message: bytes) -> Challenge | Authenticated:
        if not self._asked:
            self._asked = True
            return Challenge(b"who?")
        if not message:
            raise AuthenticationFailedError("no name")
        return Authenticated(Principal("User", message.decode()), b"hello", self._expires_ms)


OFFER = {
    "ECHO": Offered(Echo, 5000),
    "PASSING": Offered(lambda: Echo(expires_ms=10_000)),
    "OTHER": Offered(Echo),
    "SCRAM-SHORT": Offered(Echo, max_bytes=10),
}


def logged_in(mechanism: str = "ECHO") -> SaslLogin:
    login = SaslLogin(OFFER)
    login.begin(mechanism, now=0.0)
    assert login.step(b"") == Challenge(b"who?")
    login.step(b"alice")
    return login


def test_a_client_is_known_at_the_end_of_an_exchange() -> None:
    login = logged_in()

    assert (login.is_done, login.principal) == (True, Principal("User", "alice"))


def test_a_mechanism_that_is_not_offered_ends_it() -> None:
    login = SaslLogin(OFFER)

    with pytest.raises(UnsupportedMechanismError):
        login.begin("PLAIN", now=0.0)
    with pytest.raises(OutOfOrderError):
        login.begin("ECHO", now=0.0)


def test_a_failure_is_the_end() -> None:
    login = SaslLogin(OFFER)
    login.begin("ECHO", now=0.0)
    login.step(b"")
    with pytest.raises(AuthenticationFailedError):
        login.step(b"")

    with pytest.raises(OutOfOrderError):
        login.step(b"alice")


def test_a_token_before_the_handshake_is_out_of_order() -> None:
    with pytest.raises(OutOfOrderError):
        SaslLogin(OFFER).step(b"alice")


def test_a_client_may_authenticate_again_as_itself() -> None:
    login = logged_in()
    assert not login.may_not_begin(0.5)

    login.begin("ECHO", now=1.0)
    login.step(b"")
    login.step(b"alice")

    assert (login.is_done, login.is_again) == (True, True)
    assert login.may_not_begin(1.5)
    assert not login.may_not_begin(2.0)


def test_a_login_without_an_end_is_not_done_again() -> None:
    assert logged_in("OTHER").may_not_begin(1000.0)
    assert not logged_in("PASSING").may_not_begin(1000.0)


def test_versions_may_be_requested_once_before_the_handshake() -> None:
    login = SaslLogin(OFFER)
    login.ask_versions(is_valid=False)
    login.ask_versions(is_valid=True)
    with pytest.raises(OutOfOrderError) as refusal:
        login.ask_versions(is_valid=True)

    assert not refusal.value.during_exchange
    with pytest.raises(OutOfOrderError):
        login.begin("ECHO", now=0.0)


def test_versions_may_not_be_requested_during_an_exchange() -> None:
    login = SaslLogin(OFFER)
    login.begin("ECHO", now=0.0)
    with pytest.raises(OutOfOrderError) as refusal:
        login.ask_versions(is_valid=True)

    assert refusal.value.during_exchange


def test_versions_may_be_requested_at_any_time_after_it() -> None:
    login = logged_in()
    login.ask_versions(is_valid=True)
    login.ask_versions(is_valid=True)

    assert login.is_done


def test_a_client_that_authenticates_again_cannot_become_another() -> None:
    login = logged_in()
    login.begin("ECHO", now=1.0)
    login.step(b"")

    with pytest.raises(AuthenticationFailedError, match="Cannot change principals"):
        login.step(b"bob")


def test_a_client_that_authenticates_again_keeps_its_mechanism() -> None:
    with pytest.raises(OutOfOrderError, match="the client authenticated with ECHO"):
        logged_in().begin("OTHER", now=1.0)


@pytest.mark.parametrize(
    ("mechanism", "now_ms", "lifetime_ms"), [("ECHO", 0, 5000), ("OTHER", 0, 0), ("PASSING", 4000, 6000)]
)
def test_a_session_ends_with_the_credential_or_at_the_limit(
    mechanism: str, now_ms: int, lifetime_ms: int
) -> None:
    assert logged_in(mechanism).lifetime_ms(now_ms) == lifetime_ms


def test_a_message_that_is_too_long_is_refused_before_it_is_parsed() -> None:
    login = SaslLogin(OFFER)
    login.begin("SCRAM-SHORT", now=0.0)
    assert login.step(b"0123456789") == Challenge(b"who?")

    with pytest.raises(
        AuthenticationFailedError, match=r"11 bytes, .* allows 10 \(barnabas.sasl.scram.max.bytes\)"
    ):
        login.step(b"0123456789a")
    with pytest.raises(OutOfOrderError):
        login.step(b"alice")
