"""TLS 1.3 after the handshake, by hand: records that no library sends, such as many key updates (RFC 8446, 4.6.3).

The standard library has no call for them, but it writes secrets into a file for those who want to look into traffic.
"""

from __future__ import annotations

import hmac
import struct
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

HANDSHAKE, DATA = 22, 23
CIPHER = "TLS_AES_256_GCM_SHA384"
KEY_BYTES, IV_BYTES, SECRET_BYTES = 32, 12, 48
ASK_FOR_ONE, ASK_FOR_NONE = b"\x18\x00\x00\x01\x01", b"\x18\x00\x00\x01\x00"


class Writer:
    """The client's side of a connection whose handshake is done, with CIPHER."""

    def __init__(self, secret: bytes) -> None:
        self._use(secret)

    @classmethod
    def from_secrets(cls, file: Path) -> Writer:
        """For the latest connection of a context that has written its secrets to this file."""
        lines = (line.split() for line in file.read_text().splitlines())
        *_, secret = (parts[2] for parts in lines if parts and parts[0] == "CLIENT_TRAFFIC_SECRET_0")
        return cls(bytes.fromhex(secret))

    def data(self, content: bytes) -> bytes:
        return self._record(content, DATA)

    def key_update(self, message: bytes = ASK_FOR_ONE) -> bytes:
        record = self._record(message, HANDSHAKE)
        self._use(_expanded(self._secret, b"traffic upd", SECRET_BYTES))
        return record

    def _use(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._key = AESGCM(_expanded(secret, b"key", KEY_BYTES))
        self._iv = int.from_bytes(_expanded(secret, b"iv", IV_BYTES), "big")

    def _record(self, content: bytes, kind: int) -> bytes:
        header = struct.pack(">BHH", DATA, 0x0303, len(content) + 1 + 16)
        nonce = (self._iv ^ self._number).to_bytes(IV_BYTES, "big")
        self._number += 1
        return header + self._key.encrypt(nonce, content + bytes([kind]), header)


def _expanded(secret: bytes, label: bytes, length: int) -> bytes:
    """HKDF-Expand-Label without a context (RFC 8446, 7.1), of at most one block: a single HMAC."""
    name = b"tls13 " + label
    info = struct.pack(">HB", length, len(name)) + name + b"\x00"
    return hmac.digest(secret, info + b"\x01", "sha384")[:length]
