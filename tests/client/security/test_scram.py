"""SCRAM with the examples of the RFCs, and against dishonest brokers."""

import pytest

from barnabas.client.errors import AuthenticationError
from barnabas.client.security.scram import scram

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_exchange_is_that_of_the_rfc() -> None:
    exchange = scram("sha256", "user", "pencil", NONCE)

    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.send(SERVER_FIRST) == CLIENT_FINAL
    with pytest.raises(StopIteration):
        exchange.send(SERVER_FINAL)


def test_a_broker_that_does_not_know_the_password_is_found_out() -> None:
    exchange = scram("sha256", "user", "pencil", NONCE)
    next(exchange)
    exchange.send(SERVER_FIRST)

    with pytest.raises(AuthenticationError, match="cannot prove that it knows the password"):
        exchange.send(SERVER_FINAL.replace(b"6rri", b"7rri"))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (SERVER_FIRST.replace(b"r=rOpr", b"r=xOpr"), "wrong nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "wrong nonce"),
        (SERVER_FIRST.replace(b"i=4096", b"i=1"), "'1' hash iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=999999999"), "'999999999' hash iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=-5"), "'-5' hash iterations"),
        (SERVER_FIRST.replace(b"s=W22Z", b"s=!!!!"), "base64"),
        (b"m=new," + SERVER_FIRST, "extension"),
        (b"\xff\xfe", "not valid UTF-8"),
        (b"", "wrong nonce"),
    ],
)
def test_an_answer_that_cannot_be_is_refused(answer: bytes, text: str) -> None:
    exchange = scram("sha256", "user", "pencil", NONCE)
    next(exchange)

    with pytest.raises(AuthenticationError, match=text):
        exchange.send(answer)


def test_the_brokers_own_reason_is_passed_on() -> None:
    exchange = scram("sha256", "user", "pencil", NONCE)
    next(exchange)
    exchange.send(SERVER_FIRST)

    with pytest.raises(AuthenticationError, match="invalid-proof"):
        exchange.send(b"e=invalid-proof")


def test_marks_of_the_protocol_in_a_name_are_escaped() -> None:
    assert next(scram("sha512", "a=b,c", "x", "N")) == b"n,,n=a=3Db=2Cc,r=N"


def test_each_exchange_has_a_nonce_of_its_own() -> None:
    assert next(scram("sha256", "u", "p")) != next(scram("sha256", "u", "p"))
