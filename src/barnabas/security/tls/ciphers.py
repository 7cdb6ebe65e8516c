"""Cipher suites by the names of Java and of OpenSSL.

Java and Kafka say TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, OpenSSL ECDHE-RSA-AES128-GCM-SHA256. The suites of TLS 1.3
have one name in both, and Python has no way to choose among them: all three are on when TLS 1.3 is.
"""

from __future__ import annotations

from typing import NamedTuple

TLS_1_3 = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})


class Suites(NamedTuple):
    """A list of suites by the version that they belong to."""

    old: str  # for OpenSSL; those of TLS 1.2
    new: frozenset[str]  # those of TLS 1.3


def suites_of(text: str) -> Suites:
    """Read a list that is separated by commas or colons."""
    names = [name.strip() for name in text.replace(":", ",").split(",") if name.strip()]
    new = frozenset(name for name in names if name in TLS_1_3)
    return Suites(":".join(_openssl_name(name) for name in names if name not in TLS_1_3), new)


def _openssl_name(name: str) -> str:
    if not name.startswith("TLS_"):
        return name
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC", "")
    if "CHACHA20" in cipher:
        cipher = cipher.removesuffix("_SHA256")
    return "-".join(part.replace("_", "-") for part in (exchange, cipher) if part not in ("", "RSA"))
