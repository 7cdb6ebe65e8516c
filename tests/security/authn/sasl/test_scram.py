"""The server side of SCRAM, with the client of `client/security/scram` and handmade messages."""

from __future__ import annotations

import base64
import contextlib
import time
import tracemalloc
from collections.abc import Callable

import pytest

from barnabas.client.security.scram import scram
from barnabas.security.authn.credentials import ScramCredential, ScramMechanism
from barnabas.security.authn.sasl.login import Authenticated, AuthenticationFailedError, Challenge
from barnabas.security.authn.sasl.scram import ScramExchange
from barnabas.security.authn.sasl.scram_users import StoredUsers
from barnabas.security.authn.scram import new_credential
from barnabas.security.principal import Principal
from tests.support.clocks import MAX_STEP

NAME, PASSWORD = "al=ice, x", "her secret"
SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
CREDENTIALS = {
    (NAME, SHA_256): new_credential(SHA_256, PASSWORD, 5000),
    (NAME, SHA_512): new_credential(SHA_512, PASSWORD),
    ("weak", SHA_256): ScramCredential(b"salt", b"k" * 32, b"k" * 32, 1000),
}
USERS = StoredUsers(lambda: CREDENTIALS)


def exchange(mechanism: ScramMechanism = SHA_256) -> ScramExchange:
    return ScramExchange(mechanism, USERS)


def log_in(mechanism: ScramMechanism, name: str, password: str) -> Authenticated:
    """The client checks the broker's signature, too."""
    ours, client = exchange(mechanism), scram(mechanism.hash_name, name, password)
    challenge = ours.step(next(client))
    assert isinstance(challenge, Challenge)
    done = ours.step(client.send(challenge.message))
    assert isinstance(done, Authenticated)
    with pytest.raises(StopIteration):
        client.send(done.message)
    return done


def refusal(step: Callable[[], object]) -> str:
    with pytest.raises(AuthenticationFailedError) as caught:
        step()
    assert "invalid credentials" in str(caught.value)
    return caught.value.detail


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_both_sides_know_each_other_at_the_end(mechanism: ScramMechanism) -> None:
    assert log_in(mechanism, NAME, PASSWORD).principal == Principal("User", NAME)


@pytest.mark.parametrize(("name", "password"), [(NAME, "wrong"), ("nobody", PASSWORD), ("weak", PASSWORD)])
def test_wrong_passwords_unknown_users_and_weak_credentials_are_refused_at_the_end(
    name: str, password: str
) -> None:
    assert "wrong password, or no user" in refusal(lambda: log_in(SHA_256, name, password))


def test_unknown_user_is_indistinguishable_from_a_known_one() -> None:
    def first_answer(name: str) -> list[str]:
        challenge = exchange().step(f"n,,n={name},r=abc".encode())
        assert isinstance(challenge, Challenge)
        return challenge.message.decode().split(",")

    known, unknown, again = first_answer("al=3Dice=2C x"), first_answer("nobody"), first_answer("nobody")

    assert known[2] == unknown[2] == "i=5000"
    assert len(known[1]) == len(unknown[1])
    assert unknown[1] == again[1] != first_answer("another")[1]
    assert unknown[0] != again[0]


def shown(users: StoredUsers, name: str) -> tuple[bytes, int]:
    credential = users.of_user(SHA_256, name).credential
    return credential.salt, credential.iterations


def test_every_broker_gives_an_unknown_user_the_same_salt_also_after_a_restart() -> None:
    """A different response of another broker must not reveal that the user is unknown."""
    backwards = dict(reversed(CREDENTIALS.items()))
    first, second = (
        StoredUsers(lambda kept=kept: kept, decoy_key=lambda: b"k" * 32)  # type: ignore[misc]
        for kept in (CREDENTIALS, backwards)
    )
    assert shown(first, "nobody") == shown(second, "nobody") != shown(first, "another")
    assert shown(first, NAME) == shown(second, NAME)


def test_the_salt_of_an_unknown_user_needs_the_key_of_the_brokers() -> None:
    one = StoredUsers(lambda: CREDENTIALS, decoy_key=lambda: b"a" * 32)
    other = StoredUsers(lambda: CREDENTIALS, decoy_key=lambda: b"b" * 32)
    assert shown(one, "nobody") != shown(other, "nobody")


def test_unknown_user_looks_like_a_typical_user() -> None:
    common = [ScramCredential(bytes(24), b"k" * 32, b"k" * 32, 8192) for _ in range(2)]
    users = {(f"user-{number}", SHA_256): each for number, each in enumerate(common)} | CREDENTIALS
    salt, iterations = shown(StoredUsers(lambda: users), "nobody")
    assert (len(salt), iterations) == (24, 8192)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"p=tls-unique,,n=a,r=abc", "requires channel binding"),
        (b"n,,m=new,n=a,r=abc", "requires an unknown SCRAM extension"),
        (b"n,,n=,r=abc", "does not conform to RFC 5802"),
        (b"n,,n=a=b,r=abc", "contains = outside of =2C and =3D"),
        (b"n,,n=a,r=", "does not conform to RFC 5802"),
        (b"x,,n=a,r=abc", "does not conform to RFC 5802"),
        (b"n,,n=a,r=a c", "does not conform to RFC 5802"),
        (b"n,,n=a,r=" + b"a" * 513, "does not conform to RFC 5802"),
        (b"", "does not conform to RFC 5802"),
        (b"n,,n=\xff,r=abc", "not valid UTF-8"),
    ],
)
def test_a_first_message_that_is_not_as_it_must_be_is_refused(message: bytes, reason: str) -> None:
    assert reason in refusal(lambda: exchange().step(message))


def test_client_that_supports_channel_binding_may_declare_it() -> None:
    assert isinstance(exchange().step(b"y,,n=a,r=abc"), Challenge)


def test_cve_2017_12610_clients_cannot_impersonate_another_user() -> None:
    assert isinstance(exchange().step(b"n,a=alice,n=alice,r=abc"), Challenge)
    with pytest.raises(AuthenticationFailedError, match="authorization id"):
        exchange().step(b"n,a=bob,n=alice,r=abc")


def test_cve_2024_56128_the_nonce_of_the_last_message_must_be_that_of_the_exchange() -> None:
    ours, client = exchange(), scram("sha256", NAME, PASSWORD, nonce="abc")
    challenge = ours.step(next(client))
    assert isinstance(challenge, Challenge)
    right = client.send(challenge.message)
    binding, _, proof = right.split(b",")

    assert "nonce" in refusal(lambda: ours.step(b",".join((binding, b"r=abc", proof))))


def test_a_replayed_exchange_proves_nothing() -> None:
    ours, client = exchange(), scram("sha256", NAME, PASSWORD, nonce="abc")
    first = next(client)
    challenge = ours.step(first)
    assert isinstance(challenge, Challenge)
    last = client.send(challenge.message)
    assert isinstance(ours.step(last), Authenticated)

    later = exchange()
    later.step(first)

    assert "nonce" in refusal(lambda: later.step(last))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (lambda text: text.replace("c=biws", "c=eSws"), "channel binding"),
        (lambda text: text.replace("c=biws", "c=!"), "does not conform to RFC 5802"),
        (lambda text: text.partition(",p=")[0], "does not conform to RFC 5802"),
        (
            lambda text: text.partition(",p=")[0] + ",p=" + base64.b64encode(b"short").decode(),
            "wrong password",
        ),
        (lambda text: text + "A", "wrong password"),
    ],
)
def test_a_last_message_that_was_changed_is_refused(changed: Callable[[str], str], reason: str) -> None:
    ours, client = exchange(), scram("sha256", NAME, PASSWORD)
    challenge = ours.step(next(client))
    assert isinstance(challenge, Challenge)
    last = client.send(challenge.message).decode()

    assert reason in refusal(lambda: ours.step(changed(last).encode()))


def test_a_token_is_no_user() -> None:
    ours = exchange()
    message = f"n,,n={NAME.replace('=', '=3D').replace(',', '=2C')},r=abc,tokenauth=true".encode()

    assert ours.blocks(message)
    ours.step(message)
    assert not ours.blocks(b"c=biws")
    assert ours._known.principal is None


@pytest.mark.parametrize("name", ["=", "a=", "=2", "=2c", "==2C2C", "=3=2CD", "=4D"])
def test_a_name_with_an_equals_sign_that_is_not_escaped_is_refused(name: str) -> None:
    assert "contains = outside of =2C and =3D" in refusal(
        lambda: exchange().step(f"n,,n={name},r=abc".encode())
    )


@pytest.mark.parametrize("letter", ["x", "=2C", "=", ","])
def test_a_long_name_costs_no_more_than_its_length(letter: str) -> None:
    message = f"n,,n={letter * 500_000},r=abc".encode()
    tracemalloc.start()
    began = time.thread_time()
    with contextlib.suppress(AuthenticationFailedError):
        exchange().step(message)
    seconds, (_, peak) = time.thread_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < MAX_STEP * 2, "it is parsed only up to 4 KiB, and this is 512"
    assert peak < 8 * len(message)
