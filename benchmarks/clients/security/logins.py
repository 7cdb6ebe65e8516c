"""SCRAM logins (RFC 5802), each on a new connection: SaslHandshake, then two rounds of SaslAuthenticate.

    python -m benchmarks.clients.security.logins --port P --mechanism SCRAM-SHA-512 --user U --password W --count 1000

The salted password is computed once per salt, as by clients that log in often: otherwise the 4,096 hash iterations of
the client would dominate the measurement.
"""

import argparse
import base64
import hashlib
import hmac
import json
import secrets
import socket
from dataclasses import dataclass
from functools import cache

from benchmarks import wire
from benchmarks.clients.probe import receive_frame
from benchmarks.clients.security.connecting import connect, repeated

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NO_BINDING = "c=biws"  # "n,,": no channel binding


@cache
def salted_password(hash_name: str, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)


@dataclass(frozen=True)
class Login:
    """`run` logs in; raises if the broker rejects the login or cannot prove that it knows the password."""

    port: int
    mechanism: str
    user: str
    password: str

    def run(self) -> None:
        with connect(self.port) as connection:
            connection.sendall(wire.sasl_handshake_frame(self.mechanism))
            wire.check_sasl_handshake(receive_frame(connection))
            first = f"n={self.user},r={secrets.token_urlsafe(18)}"
            challenge = _ask(connection, f"n,,{first}")
            final, expected = self._answer(first, challenge)
            if _ask(connection, final) != expected:
                raise RuntimeError("the broker does not know the password")

    def _answer(self, first: str, challenge: str) -> tuple[str, str]:
        """The client's final message, and the expected server signature."""
        fields = dict(part.split("=", 1) for part in challenge.split(","))
        hash_name = _HASHES[self.mechanism]
        salt = base64.b64decode(fields["s"])
        salted = salted_password(hash_name, self.password, salt, int(fields["i"]))
        without_proof = f"{_NO_BINDING},r={fields['r']}"
        message = f"{first},{challenge},{without_proof}".encode()
        key = hmac.digest(salted, b"Client Key", hash_name)
        signature = hmac.digest(hashlib.new(hash_name, key).digest(), message, hash_name)
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", hash_name)
        expected = hmac.digest(server_key, message, hash_name)
        return f"{without_proof},p={_base64(proof)}", f"v={_base64(expected)}"


def _ask(connection: socket.socket, token: str) -> str:
    connection.sendall(wire.sasl_authenticate_frame(token.encode()))
    return wire.sasl_token(receive_frame(connection)).decode()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--mechanism", choices=list(_HASHES), required=True)
    parser.add_argument("--user", required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--threads", type=int, default=8, help="connections at once")
    options = parser.parse_args()
    login = Login(options.port, options.mechanism, options.user, options.password)
    print(
        json.dumps({"count": options.count, "seconds": repeated(login.run, options.count, options.threads)})
    )


if __name__ == "__main__":
    main()
