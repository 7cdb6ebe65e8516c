"""Authenticator `ldap`: SASL/PLAIN passwords checked by an LDAP server; an example for custom authenticators, too.

A password is valid if a simple bind (RFC 4513) with it succeeds. Options, in the file named by
`barnabas.plain.authenticator.config`:

    url=ldaps://ldap.example.com
    user.dn=uid={},ou=people,dc=example,dc=com
    ca.file=/etc/barnabas/ldap-ca.pem
    timeout.seconds=5
    principal.case=lower

LDAP ignores case, width and spaces when it compares names; ACLs compare them exactly, so ALICE would evade a DENY for
alice. The principal is therefore the canonical name, stripped and in lower case. `principal.case=keep` keeps the name
as sent by the client.
"""

from __future__ import annotations

import socket
import ssl
import unicodedata
from collections.abc import Mapping
from typing import BinaryIO
from urllib.parse import urlsplit

from barnabas.security.authn.credentials import SecuritySettingError
from barnabas.security.endpoints import is_this_machine

_OPTIONS = frozenset({"url", "user.dn", "ca.file", "timeout.seconds", "principal.case"})
_CASES = ("lower", "keep")
_PORTS = {"ldap": 389, "ldaps": 636}
_SUCCESS, _INVALID_CREDENTIALS = 0, 49
_MAX_RESPONSE_BYTES = 64 * 1024
_SPECIAL = frozenset('"+,;<>\\=#')


class Ldap:
    """Binds to the server once per login, over a new connection."""

    blocks = True

    def __init__(
        self,
        host: str,
        port: int,
        user_dn: str,
        context: ssl.SSLContext | None,
        seconds: float,
        *,
        keeps_case: bool = False,
    ) -> None:
        self._address = (host, port)
        self._user_dn = user_dn
        self._context = context
        self._seconds = seconds
        self._keeps_case = keeps_case

    def principal_name(self, username: str) -> str:
        return username if self._keeps_case else canonical(username)

    def is_right(self, username: str, password: str) -> bool:
        """Bind as the user; OSError if the server is unreachable or fails."""
        if not password:
            return False  # an unauthenticated bind always succeeds and proves nothing (RFC 4513, 5.1.2)
        request = bind_request(self._user_dn.replace("{}", escaped(username)), password)
        with socket.create_connection(self._address, self._seconds) as plain:
            if self._context is None:
                return self._bind(plain, request)
            with self._context.wrap_socket(plain, server_hostname=self._address[0]) as secure:
                return self._bind(secure, request)

    def _bind(self, connected: socket.socket, request: bytes) -> bool:
        connected.sendall(request)
        with connected.makefile("rb") as responses:
            code = bind_result(read_element(responses))
        if code not in (_SUCCESS, _INVALID_CREDENTIALS):
            raise OSError(f"the LDAP server returned result code {code}")
        return code == _SUCCESS


def authenticator(options: Mapping[str, str]) -> Ldap:
    """Entry point; SecuritySettingError if an option is missing or invalid."""
    for name in options:
        if name not in _OPTIONS:
            raise SecuritySettingError(
                name, f"is not an option of ldap; valid options: {', '.join(sorted(_OPTIONS))}"
            )
    url, user_dn = urlsplit(options.get("url", "")), options.get("user.dn", "")
    if url.scheme not in _PORTS or not url.hostname:
        raise SecuritySettingError("url", "must be ldaps://HOST[:PORT]")
    if url.scheme == "ldap" and not is_this_machine(url.hostname):
        raise SecuritySettingError("url", "must be ldaps, or ldap to this machine: it receives passwords")
    if user_dn.count("{}") != 1:
        raise SecuritySettingError(
            "user.dn", "must be a distinguished name with {} in place of the user's name"
        )
    case = options.get("principal.case", "lower")
    if case not in _CASES:
        raise SecuritySettingError("principal.case", f"must be one of {', '.join(_CASES)}")
    context = ssl.create_default_context(cafile=options.get("ca.file")) if url.scheme == "ldaps" else None
    seconds = float(options.get("timeout.seconds", "5"))
    port = url.port or _PORTS[url.scheme]
    return Ldap(url.hostname, port, user_dn, context, seconds, keeps_case=case == "keep")


def canonical(name: str) -> str:
    """Canonical form of all names that an LDAP server treats as equal (RFC 4518): stripped, in lower case."""
    visible = "".join(letter for letter in name if unicodedata.category(letter) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", visible).lower().split())


def escaped(name: str) -> str:
    """Escape a value for a distinguished name (RFC 4514), so that a name cannot inject further components."""
    return "".join(f"\\{ord(char):02x}" if char in _SPECIAL or char in " \0" else char for char in name)


def _element(tag: int, content: bytes) -> bytes:
    """Encode in BER: tag, length, content."""
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def bind_request(dn: str, password: str) -> bytes:
    """Encode a BindRequest (RFC 4511, 4.2): version 3, the name, and the password."""
    bind = _element(0x02, b"\x03") + _element(0x04, dn.encode()) + _element(0x80, password.encode())
    return _element(0x30, _element(0x02, b"\x01") + _element(0x60, bind))


def read_element(file: BinaryIO) -> bytes:
    """Return the content of the next element; OSError if it is incomplete or too large."""
    start = file.read(2)
    if len(start) < 2:
        raise OSError("the LDAP server closed the connection")
    size = start[1]
    if size & 0x80:
        size = int.from_bytes(file.read(size & 0x7F), "big")
    if size > _MAX_RESPONSE_BYTES:
        raise OSError(
            f"the LDAP server sent a response of {size} bytes; at most {_MAX_RESPONSE_BYTES} are read"
        )
    content = file.read(size)
    if len(content) < size:
        raise OSError("the LDAP server closed the connection")
    return content


def bind_result(message: bytes) -> int:
    """Return the result code of a BindResponse: after the message id, the first element of [APPLICATION 1]."""
    try:
        position = 2 + message[1]
        if message[0] != 0x02 or message[position] != 0x61:
            raise OSError("the LDAP server did not send a BindResponse")
        length = message[position + 1]
        position += 2 + (length & 0x7F if length & 0x80 else 0)
        return int.from_bytes(message[position + 2 : position + 2 + message[position + 1]], "big")
    except IndexError:
        raise OSError("the LDAP server sent a truncated BindResponse") from None
