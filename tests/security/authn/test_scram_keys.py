"""Keys derived from passwords, with the examples of RFC 7677 and of Kafka's client."""

from __future__ import annotations

import base64
import hmac

from barnabas.common.cooperative import finish
from barnabas.security.authn.credentials import DelegationToken, ScramMechanism
from barnabas.security.authn.scram import (
    MIN_ITERATIONS,
    client_key,
    credential_from_salted,
    matches,
    new_credential,
    salted_password,
)
from barnabas.security.authn.tokens import TokenSecrets, credential_of, hmac_of, password_of

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
COVERED = (
    b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
)


def test_the_keys_are_those_of_rfc_7677() -> None:
    mechanism = ScramMechanism.SHA_256
    salted = salted_password(mechanism, "pencil", SALT, 4096)
    kept = credential_from_salted(mechanism, SALT, salted, 4096)
    signature = hmac.digest(kept.stored_key, COVERED, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key(mechanism, salted), signature, strict=True))
    assert base64.b64encode(proof) == b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    server = base64.b64encode(hmac.digest(kept.server_key, COVERED, "sha256"))
    assert server == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_password_is_known_again_and_not_shown() -> None:
    for mechanism in ScramMechanism:
        one, other = (new_credential(mechanism, "ein Paßwort") for _ in range(2))
        assert one.iterations == MIN_ITERATIONS
        assert one != other  # each has a separate salt
        assert matches(one, mechanism, "ein Paßwort")
        assert not matches(one, mechanism, "ein Passwort")
        assert repr(one) == "ScramCredential(iterations=4096)"


def test_a_token_logs_in_with_its_hmac() -> None:
    token = DelegationToken("an-id", "User:alice", "User:alice", (), 0, 1, 1)
    credential = credential_of(token, ScramMechanism.SHA_512, "key", b"salt")
    password = base64.b64encode(hmac.digest(b"key", b"an-id", "sha512")).decode()
    assert password_of("an-id", "key") == password
    assert matches(credential, ScramMechanism.SHA_512, password)


def test_a_secret_finds_its_token_as_long_as_there_is_one() -> None:
    secrets = TokenSecrets("key")
    assert finish(secrets.finding(["a", "b"], hmac_of("b", "key"))) == "b"
    assert finish(secrets.finding(["a", "b"], hmac_of("b", "another key"))) is None
    assert finish(secrets.finding(["a", "c"], hmac_of("b", "key"))) is None
    assert finish(secrets.finding(["a", "c"], hmac_of("c", "key"))) == "c"
    assert "key" not in repr(secrets)
