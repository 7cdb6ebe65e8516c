"""The keys of SCRAM (RFC 5802), which both sides derive from a password.

    SaltedPassword = PBKDF2(password, salt, iterations)
    ClientKey = HMAC(SaltedPassword, "Client Key")      StoredKey = H(ClientKey)
    ServerKey = HMAC(SaltedPassword, "Server Key")

Who knows StoredKey and ServerKey can check a password and prove to know it, but cannot log in with them. Names and
passwords are taken as they are: RFC 5802 wants them normalised (SASLprep), Kafka does not do it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from barnabas.security.authn.credentials import ScramCredential, ScramMechanism

FEWEST_ITERATIONS = 4096  # Kafka's and RFC 7677's
MAX_ITERATIONS = 16_384  # Kafka's: each login costs a client, and PLAIN a broker, so many hashes
SALT_BYTES = 20


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Takes some milliseconds, without the GIL."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", mechanism.hash_name)


def stored_key(mechanism: ScramMechanism, key: bytes) -> bytes:
    return hashlib.new(mechanism.hash_name, key).digest()


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Server Key", mechanism.hash_name)


def credential_from_salted(
    mechanism: ScramMechanism, salt: bytes, salted: bytes, iterations: int
) -> ScramCredential:
    """What is kept of a password that arrives salted, as in AlterUserScramCredentials."""
    key = stored_key(mechanism, client_key(mechanism, salted))
    return ScramCredential(salt, key, server_key(mechanism, salted), iterations)


def new_credential(
    mechanism: ScramMechanism, password: str, iterations: int = FEWEST_ITERATIONS
) -> ScramCredential:
    """What is kept of a password, with a salt of its own."""
    salt = secrets.token_bytes(SALT_BYTES)
    return credential_from_salted(
        mechanism, salt, salted_password(mechanism, password, salt, iterations), iterations
    )


def matches(credential: ScramCredential, mechanism: ScramMechanism, password: str) -> bool:
    """Is this the password? In constant time, but for the length of the password (CVE-2021-38153)."""
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    return hmac.compare_digest(stored_key(mechanism, client_key(mechanism, salted)), credential.stored_key)
