"""Valid and invalid JWTs."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from barnabas.common.clock import ManualClock
from barnabas.security.authn.credentials import SecuritySettingError
from barnabas.security.jwt.jwks import KeySource, key_source, parse_keys
from barnabas.security.jwt.verification import InvalidTokenError, JwtRules, check_token
from tests.support.identity_providers import AUDIENCE, ISSUER, SigningKey, claims, encoded

RULES = JwtRules(ISSUER, frozenset({AUDIENCE}))
RSA, EC = SigningKey("rsa"), SigningKey("ec", curve=ec.SECP256R1())
JWKS = json.dumps({"keys": [RSA.jwk(), EC.jwk(), {"kty": "oct", "kid": "shared", "k": "c2VjcmV0"}]}).encode()


class Known:
    keys = parse_keys(JWKS)

    def find(self, key_id: str | None) -> Any:
        return self.keys.get(key_id)

    def holds(self, key: object) -> bool:
        return key in self.keys.values()


def check(token: str, rules: JwtRules = RULES) -> Any:
    return check_token(token, Known(), rules, time.time())


def refusal(token: str, rules: JwtRules = RULES) -> str:
    with pytest.raises(InvalidTokenError) as caught:
        check(token, rules)
    return str(caught.value)


@pytest.mark.parametrize(("key", "algorithm"), [(RSA, "RS256"), (RSA, "PS256"), (EC, "ES256")])
def test_a_token_that_the_provider_has_signed_counts(key: SigningKey, algorithm: str) -> None:
    output = claims(scope="read write")

    assert check(key.sign(output, algorithm))[:3] == ("alice", output["exp"] * 1000, {"read", "write"})


def test_the_claims_of_user_and_scope_can_have_other_names() -> None:
    rules = RULES._replace(subject_claim="email", scope_claim="scp")

    token = check(RSA.sign(claims(email="a@b", scp=["x"])), rules)

    assert (token.subject, token.scope) == ("a@b", {"x"})


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ({"iss": "https://other"}, "the issuer does not match"),
        ({"aud": "other"}, "the audience does not match"),
        ({"aud": None}, "the audience does not match"),
        ({"exp": time.time() - 31}, "expired"),
        ({"exp": None}, "exp is not a valid time"),
        ({"exp": True}, "exp is not a valid time"),
        ({"exp": 1e300}, "exp is not a valid time"),
        ({"iat": time.time() + 86_400}, "not valid yet (iat)"),
        ({"iat": None}, "iat is not a valid time"),
        ({"nbf": time.time() + 86_400}, "not valid yet (nbf)"),
        ({"sub": ""}, "no subject (claim sub)"),
        ({"sub": 7}, "no subject (claim sub)"),
    ],
)
def test_token_with_other_claims_is_rejected(output: dict[str, Any], reason: str) -> None:
    assert reason in refusal(RSA.sign(claims(**output)))


def test_clocks_may_differ_a_little() -> None:
    assert check(RSA.sign(claims(exp=time.time() - 20, iat=time.time() + 20)))


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", "HS256", "HS512", "RS1", "dir"])
def test_cve_2026_33557_and_cve_2021_22160_only_algorithms_of_the_list_count(algorithm: str) -> None:
    _, output, _ = RSA.sign(claims()).split(".")
    header = encoded(json.dumps({"alg": algorithm, "kid": "rsa"}).encode())

    assert "is not allowed" in refusal(f"{header}.{output}.")
    assert "is not allowed" in refusal(f"{header}.{output}.{encoded(b'x' * 256)}")


def test_cve_2026_110985_a_public_key_is_no_secret() -> None:
    """A public key must not work as an HMAC secret, even if the algorithm list was extended."""
    header = encoded(json.dumps({"alg": "HS256", "kid": "rsa"}).encode())
    signed = f"{header}.{encoded(json.dumps(claims()).encode())}"
    mac = hmac.digest(RSA.public_pem(), signed.encode(), "sha256")

    assert "is not allowed" in refusal(f"{signed}.{encoded(mac)}")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (lambda: EC.sign(claims(), kid="rsa"), "signature is invalid"),
        (lambda: RSA.sign(claims(), kid="ec"), "signature is invalid"),
        (lambda: SigningKey("rsa").sign(claims()), "signature is invalid"),
        (lambda: RSA.sign(claims(), kid="unknown"), "does not publish the token's key"),
        (lambda: RSA.sign(claims(), kid="shared"), "does not publish the token's key"),
        (lambda: RSA.sign(claims(), crit=["exp"]), "crit"),
        (lambda: RSA.sign(claims())[:-8], "signature is invalid"),
        (lambda: EC.sign(claims())[:-8], "signature is invalid"),
        (lambda: RSA.sign(claims()).rpartition(".")[0] + ".", "signature is invalid"),
        (lambda: RSA.sign(claims()) + ".x", "not a signed JWT"),
        (lambda: "a.b.c", "not a signed JWT"),
        (lambda: "ä.b.c", "not a signed JWT"),
        (lambda: "", "not a signed JWT"),
        (lambda: f"{encoded(b'[' * 40000)}.b.c", "not a signed JWT"),
    ],
)
def test_a_token_with_another_signature_or_none_is_refused(changed: Callable[[], str], reason: str) -> None:
    assert reason in refusal(changed())


def test_expired_token_is_rejected_without_details() -> None:
    token = RSA.sign(claims(iat=time.time() - 90_000, exp=time.time() - 86_400))

    output = refusal(token)
    assert output == "the token has expired"


def test_a_key_that_is_for_one_algorithm_is_for_no_other() -> None:
    keys = parse_keys(json.dumps({"keys": [RSA.jwk(alg="PS256")]}).encode())

    assert keys["rsa"].algorithm == "PS256"
    assert not keys["rsa"].has_signed("RS256", b"", b"")


@pytest.mark.parametrize(
    "jwks",
    [
        b"",
        b"[]",
        b'{"keys":[]}',
        b'{"keys":[1,{"kty":"RSA"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}',
        json.dumps({"keys": [SigningKey("weak", bits=1024).jwk()]}).encode(),
        json.dumps({"keys": [RSA.jwk(use="enc")]}).encode(),
    ],
)
def test_keys_that_cannot_check_a_signature_are_none(jwks: bytes) -> None:
    with pytest.raises(ValueError, match="JWKS"):
        parse_keys(jwks)


class Fetches:
    """Answers with the keys that it has, or fails."""

    def __init__(self) -> None:
        self.keys = [RSA]
        self.count = 0
        self.is_down = False

    def __call__(self) -> bytes:
        self.count += 1
        if self.is_down:
            raise OSError("no route")
        return json.dumps({"keys": [key.jwk() for key in self.keys]}).encode()


@pytest.fixture
def fetches() -> Fetches:
    return Fetches()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def source(fetches: Fetches, clock: ManualClock) -> KeySource:
    return KeySource(fetches, "test", 3600.0, (0.1, 10.0), clock.monotonic)


def test_keys_are_fetched_once_and_when_they_are_old(
    source: KeySource, fetches: Fetches, clock: ManualClock
) -> None:
    assert source.find("rsa") is not None
    assert source.find("rsa") is not None
    assert fetches.count == 1
    clock.advance(3_600_000)

    assert source.find("rsa") is not None
    assert fetches.count == 2


def test_the_refresh_interval_counts_even_below_the_longest_backoff(
    fetches: Fetches, clock: ManualClock
) -> None:
    often = KeySource(fetches, "test", 0.2, (0.1, 10.0), clock.monotonic)
    often.renew_if_old()
    clock.advance(100)
    often.renew_if_old()
    assert fetches.count == 1
    clock.advance(100)
    often.renew_if_old()
    clock.advance(200)
    assert often.find("rsa") is not None

    assert fetches.count == 3


def test_a_new_key_is_found_and_made_up_names_cost_little(
    source: KeySource, fetches: Fetches, clock: ManualClock
) -> None:
    source.find("rsa")
    fetches.keys.append(EC)
    assert source.find("ec") is None  # a moment after the last fetch
    clock.advance(10_000)
    assert source.find("ec") is not None
    for number in range(100):
        assert source.find(f"made-up-{number}") is None

    assert fetches.count == 2


def test_known_keys_stay_valid_while_the_provider_is_down(
    source: KeySource, fetches: Fetches, clock: ManualClock
) -> None:
    source.find("rsa")
    fetches.is_down = True
    clock.advance(3_600_000)
    for _ in range(10):
        assert source.find("rsa") is not None
    assert fetches.count == 2  # then it waits
    fetches.is_down = False
    clock.advance(10_000)
    assert source.find("rsa") is not None

    assert fetches.count == 3


def test_a_token_without_the_name_of_its_key_has_the_only_one(source: KeySource, fetches: Fetches) -> None:
    assert source.find(None) is not None
    fetches.keys.append(EC)
    source.renew()

    assert source.find(None) is None


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://elsewhere/keys", "must be https"),
        ("ftp://elsewhere/keys", "must be an https address"),
        ("file:///does/not/exist", "cannot be read: No such file"),
        ("file:///dev/null", "cannot be used: not a valid JWKS document"),
    ],
)
def test_keys_come_over_https_or_from_a_file(url: str, reason: str) -> None:
    with pytest.raises(SecuritySettingError, match=reason):
        key_source(url, 1.0, (1.0, 1.0), time.monotonic)
