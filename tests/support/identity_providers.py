"""Identity providers: one in this process (JWKS and client credentials over HTTP), and npm's oidc-provider."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tests.support.programs import PROJECT_ROOT, find, free_port, missing

ISSUER, AUDIENCE = "https://issuer.test", "barnabas"
_INSTALLED = PROJECT_ROOT / ".cache" / "identity-provider"
_PROGRAM = PROJECT_ROOT / "tests" / "clients" / "identity_provider" / "provider.mjs"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def claims(**others: Any) -> dict[str, Any]:
    now = int(time.time())
    return {"iss": ISSUER, "aud": [AUDIENCE, "x"], "sub": "alice", "iat": now, "exp": now + 300, **others}


class SigningKey:
    """RSA for RS256 and PS256, or P-256 for ES256."""

    def __init__(self, name: str, *, curve: ec.EllipticCurve | None = None, bits: int = 2048) -> None:
        self.name = name
        self.key: Any = (
            rsa.generate_private_key(65537, bits) if curve is None else ec.generate_private_key(curve)
        )

    @property
    def is_rsa(self) -> bool:
        return isinstance(self.key, rsa.RSAPrivateKey)

    def jwk(self, **others: str) -> dict[str, str]:
        numbers = self.key.public_key().public_numbers()
        public = (
            {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}
            if self.is_rsa
            else {"kty": "EC", "crv": "P-256", "x": number(numbers.x), "y": number(numbers.y)}
        )
        return {"kid": self.name, "use": "sig", **public, **others}

    def public_pem(self) -> bytes:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        pem: bytes = self.key.public_key().public_bytes(serialization.Encoding.PEM, form)
        return pem

    def sign(self, claims: dict[str, Any], algorithm: str | None = None, **header: Any) -> str:
        chosen = algorithm or ("RS256" if self.is_rsa else "ES256")
        start = {"alg": chosen, "kid": self.name, **header}
        signed = ".".join(encoded(json.dumps(part).encode()) for part in (start, claims))
        return f"{signed}.{encoded(self._signature(chosen, signed.encode()))}"

    def _signature(self, algorithm: str, message: bytes) -> bytes:
        digest = hashes.SHA256()
        if not self.is_rsa:
            pair = decode_dss_signature(self.key.sign(message, ec.ECDSA(digest)))
            return b"".join(half.to_bytes(32, "big") for half in pair)
        pss = padding.PSS(padding.MGF1(digest), digest.digest_size)
        made: bytes = self.key.sign(
            message, pss if algorithm.startswith("PS") else padding.PKCS1v15(), digest
        )
        return made


class IdentityProvider:
    def __init__(self) -> None:
        self.keys = [SigningKey("first")]
        self.fetches = 0
        self.clients = {"alice": "her-client-secret"}
        self.lifetime = 300
        self.address = ""

    def jwks(self) -> bytes:
        return json.dumps({"keys": [key.jwk() for key in self.keys]}).encode()

    def token(self, **others: Any) -> str:
        expires = int(time.time()) + self.lifetime
        return self.keys[-1].sign(claims(exp=expires, **others))

    @contextmanager
    def serving(self) -> Iterator[None]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.fetches += 1
                self._answer(200, provider.jwks())

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                name, _, secret = base64.b64decode(self.headers["Authorization"][6:]).decode().partition(":")
                if provider.clients.get(name) != secret:
                    self._answer(401, b"{}")
                    return
                answer = {"access_token": provider.token(sub=name), "expires_in": provider.lifetime}
                self._answer(200, json.dumps({**answer, "token_type": "Bearer"}).encode())

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (its name in the base class)
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@contextmanager
def openid_provider(folder: Path, redirect: str = "") -> Iterator[str]:
    """Run npm's oidc-provider, which accepts every password, and yield its address.

    `redirect` is where it sends users of the client `console` after the login.
    """
    (node,) = find("node")
    if not (_INSTALLED / "node_modules").is_dir():
        missing("there is no OpenID provider here (oidc-provider, with npm)")
    shutil.copy(_PROGRAM, folder)
    (folder / "node_modules").symlink_to(_INSTALLED / "node_modules")
    address = f"http://127.0.0.1:{(port := free_port())}"
    command = [node, str(folder / _PROGRAM.name), str(port), *([redirect] if redirect else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert any("listening" in line for line in process.stdout)
            yield address
        finally:
            process.terminate()
