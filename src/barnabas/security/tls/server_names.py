"""Certificates by the name that a client asks for (SNI, RFC 6066): one listener under several names."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping

from barnabas.security.secret import Secret, SecuritySettingError
from barnabas.security.tls.stores import Store

SNI = "barnabas.ssl.sni.keystores"


def named_stores(items: Iterable[str], password: Secret | None) -> tuple[tuple[str, Store], ...]:
    """Read `NAME=FILE`; the password is that of the key store of all other names."""
    return tuple(_named_store(item, password) for item in items)


def _named_store(item: str, password: Secret | None) -> tuple[str, Store]:
    name, _, path = (part.strip() for part in item.partition("="))
    if not name or not path or "*" in name.removeprefix("*."):
        raise SecuritySettingError(
            SNI, f"has {item!r}: write NAME=FILE, for instance broker.example.com=/etc/b.pem"
        )
    return name.lower(), Store(SNI, path, password=password)


class ByName:
    """Called by OpenSSL, in the thread of a handshake, with the name that the client asks for."""

    def __init__(self, contexts: Mapping[str, ssl.SSLContext]) -> None:
        self._contexts = contexts

    def __call__(self, tls: ssl.SSLObject, name: str | None, default: ssl.SSLContext) -> None:
        """Clients that ask for another name, or for none, get the certificate of the listener."""
        wanted = (name or "").lower()
        chosen = self._contexts.get(wanted) or self._contexts.get(f"*.{wanted.partition('.')[2]}")
        if chosen is not None:
            tls.context = chosen
