"""Passwords of PLAIN that an LDAP server knows: the authenticator `ldap`, and an example for others.

A password is right if the server lets its owner in (a simple bind, RFC 4513). Options, in the file that
`barnabas.plain.authenticator.config` names:

    url=ldaps://ldap.example.com
    user.dn=uid={},ou=people,dc=example,dc=com
    ca.file=/etc/barnabas/ldap-ca.pem
    timeout.seconds=5
    principal.case=lower

LDAP compares names without regard to case, width and spaces, and ACLs compare them letter by letter: ALICE would evade
a DENY for alice. So the principal is the name in one form, stripped and in lower case. `principal.case=keep` keeps the
name as the client sends it.
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
_MAX_ANSWER = 64 * 1024
_SPECIAL = frozenset('"+,;<>\\=#')


class Ldap:
    """Asks for each login, over a connection of its own."""

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
        """OSError when the server cannot be asked."""
        if not password:
            return False  # a bind without a password always succeeds, and proves nothing
        request = bind_request(self._user_dn.replace("{}", escaped(username)), password)
        with socket.create_connection(self._address, self._seconds) as plain:
            if self._context is None:
                return self._ask(plain, request)
            with self._context.wrap_socket(plain, server_hostname=self._address[0]) as secure:
                return self._ask(secure, request)

    def _ask(self, connected: socket.socket, request: bytes) -> bool:
        connected.sendall(request)
        with connected.makefile("rb") as answers:
            code = bind_result(read_element(answers))
        if code not in (_SUCCESS, _INVALID_CREDENTIALS):
            raise OSError(f"the LDAP server answers with the result code {code}")
        return code == _SUCCESS


def authenticator(options: Mapping[str, str]) -> Ldap:
    """The entry point. SecuritySettingError when an option is missing or wrong."""
    for name in options:
        if name not in _OPTIONS:
            raise SecuritySettingError(name, f"is no option of ldap; there are {', '.join(sorted(_OPTIONS))}")
    url, user_dn = urlsplit(options.get("url", "")), options.get("user.dn", "")
    if url.scheme not in _PORTS or not url.hostname:
        raise SecuritySettingError("url", "must be ldaps://HOST[:PORT]")
    if url.scheme == "ldap" and not is_this_machine(url.hostname):
        raise SecuritySettingError("url", "must be ldaps, or ldap to this machine: passwords go there")
    if user_dn.count("{}") != 1:
        raise SecuritySettingError(
            "user.dn", "must be the name of an entry with {} where the user's name belongs"
        )
    case = options.get("principal.case", "lower")
    if case not in _CASES:
        raise SecuritySettingError("principal.case", f"must be one of {', '.join(_CASES)}")
    context = ssl.create_default_context(cafile=options.get("ca.file")) if url.scheme == "ldaps" else None
    seconds = float(options.get("timeout.seconds", "5"))
    port = url.port or _PORTS[url.scheme]
    return Ldap(url.hostname, port, user_dn, context, seconds, keeps_case=case == "keep")


def canonical(name: str) -> str:
    """One form for all names that an LDAP server takes for the same (RFC 4518): stripped, in lower case."""
    visible = "".join(letter for letter in name if unicodedata.category(letter) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", visible).lower().split())


def escaped(name: str) -> str:
    """A value in a distinguished name (RFC 4514): nobody becomes another by the letters of a name."""
    return "".join(f"\\{ord(one):02x}" if one in _SPECIAL or one in " \0" else one for one in name)


def _element(tag: int, content: bytes) -> bytes:
    """BER: a tag, a length, and the content."""
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def bind_request(dn: str, password: str) -> bytes:
    """RFC 4511, 4.2: version 3, the name, and the password."""
    bind = _element(0x02, b"\x03") + _element(0x04, dn.encode()) + _element(0x80, password.encode())
    return _element(0x30, _element(0x02, b"\x01") + _element(0x60, bind))


def read_element(file: BinaryIO) -> bytes:
    """The content of the next element; OSError when there is none, or too much of it."""
    start = file.read(2)
    if len(start) < 2:
        raise OSError("the LDAP server closed the connection")
    size = start[1]
    if size & 0x80:
        size = int.from_bytes(file.read(size & 0x7F), "big")
    if size > _MAX_ANSWER:
        raise OSError("the LDAP server sends too much")
    content = file.read(size)
    if len(content) < size:
        raise OSError("the LDAP server closed the connection")
    return content


def bind_result(message: bytes) -> int:
    """The result code of a BindResponse: behind the message id, the first element of [APPLICATION 1]."""
    try:
        position = 2 + message[1]
        if message[0] != 0x02 or message[position] != 0x61:
            raise OSError("the LDAP server answers something else")
        length = message[position + 1]
        position += 2 + (length & 0x7F if length & 0x80 else 0)
        return int.from_bytes(message[position + 2 : position + 2 + message[position + 1]], "big")
    except IndexError:
        raise OSError("the LDAP server answers something else") from None
