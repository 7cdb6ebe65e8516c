"""SCRAM keys (RFC 5802), which both sides derive from the password.

    SaltedPassword = PBKDF2(password, salt, iterations)
    ClientKey = HMAC(SaltedPassword, "Client Key")      StoredKey = H(ClientKey)
    ServerKey = HMAC(SaltedPassword, "Server Key")

StoredKey and ServerKey suffice to verify a password and to prove knowledge of it, but not to log in. Names and
passwords are used unchanged: RFC 5802 requires normalization (SASLprep), but Kafka does not apply it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from barnabas.security.authn.credentials import ScramCredential, ScramMechanism

MIN_ITERATIONS = 4096  # Kafka's and RFC 7677's
MAX_ITERATIONS = 16_384  # Kafka's: hashes per login, computed by the client, and by the broker for PLAIN
SALT_BYTES = 20


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Derive SaltedPassword. Takes a few milliseconds and releases the GIL."""
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
    """Return the credential to store for a salted password, as AlterUserScramCredentials sends it."""
    key = stored_key(mechanism, client_key(mechanism, salted))
    return ScramCredential(salt, key, server_key(mechanism, salted), iterations)


def new_credential(
    mechanism: ScramMechanism, password: str, iterations: int = MIN_ITERATIONS
) -> ScramCredential:
    """Return the credential to store for a password, with a new salt."""
    salt = secrets.token_bytes(SALT_BYTES)
    return credential_from_salted(
        mechanism, salt, salted_password(mechanism, password, salt, iterations), iterations
    )


def matches(credential: ScramCredential, mechanism: ScramMechanism, password: str) -> bool:
    """True if the password is correct. Constant time except for the password's length (CVE-2021-38153)."""
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    return hmac.compare_digest(stored_key(mechanism, client_key(mechanism, salted)), credential.stored_key)
