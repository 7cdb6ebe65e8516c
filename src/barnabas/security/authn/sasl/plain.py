"""PLAIN (RFC 4616): the client sends its password in clear text, so use it with TLS only."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import Protocol

from barnabas.security.authn.jaas import LoginModule
from barnabas.security.authn.sasl.login import Authenticated, AuthenticationFailedError, Challenge
from barnabas.security.principal import USER, Principal

_USER_OPTION = "user_"


class PasswordCheck(Protocol):
    """Checks passwords; `blocks` is True if it queries another server.

    A check that accepts several names for the same user also has a method `principal_name(username)`.
    """

    blocks: bool

    def is_right(self, username: str, password: str) -> bool: ...


class ListedUsers:
    """Users listed in a JAAS configuration (`user_alice="password"`). Unknown users take the same time to check."""

    blocks = False

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._digests = {name: _digest(password) for name, password in passwords.items()}
        self._decoy = secrets.token_bytes(hashlib.sha256().digest_size)

    def is_right(self, username: str, password: str) -> bool:
        expected = self._digests.get(username, self._decoy)
        return hmac.compare_digest(expected, _digest(password))

    def replace(self, other: ListedUsers) -> None:
        """Replace the users. Takes effect for exchanges in progress and later re-authentications."""
        self._digests = other._digests

    def unchanged(self, username: str) -> Callable[[], bool]:
        """Return a check that is False once the user's password has changed or the user was removed."""
        digest = self._digests.get(username)
        return lambda: self._digests.get(username) == digest


NO_USERS = ListedUsers({})


def listed_users(module: LoginModule) -> ListedUsers:
    """Read users from the options of PlainLoginModule; `username` and `password`, the broker's login, are ignored."""
    return ListedUsers(
        {
            name.removeprefix(_USER_OPTION): value
            for name, value in module.options.items()
            if name.startswith(_USER_OPTION)
        }
    )


def _digest(password: str) -> bytes:
    """Hash to a fixed length: comparing passwords would reveal the length of the correct one (CVE-2021-38153)."""
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()


class PlainExchange:
    def __init__(self, check: PasswordCheck) -> None:
        self._check = check

    def blocks(self, message: bytes) -> bool:
        return self._check.blocks

    def step(self, message: bytes) -> Challenge | Authenticated:
        authorization_id, username, password = _parts(message)
        if not username or not password:
            missing = "password" if username else "username"
            raise AuthenticationFailedError(f"Authentication failed: {missing} not specified")
        if not self._is_right(username, password):
            raise AuthenticationFailedError(
                "Authentication failed: Invalid username or password",
                f"wrong password, or no user {username!r}",
            )
        name = self._principal_name(username)
        # Otherwise a client could impersonate any user (CVE-2017-12610).
        if authorization_id not in ("", username, name):
            raise AuthenticationFailedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        check = self._check
        is_current = check.unchanged(username) if isinstance(check, ListedUsers) else None
        return Authenticated(Principal(USER, name), is_current=is_current)

    def _principal_name(self, username: str) -> str:
        """Return the principal's name; `principal_name` is optional because it was added to the interface later."""
        principal_name: Callable[[str], str] = getattr(self._check, "principal_name", str)
        return principal_name(username)

    def _is_right(self, username: str, password: str) -> bool:
        try:
            return self._check.is_right(username, password)
        except OSError as error:
            raise AuthenticationFailedError(
                "Authentication failed: passwords cannot be checked at the moment",
                f"password check failed: {error}",
            ) from None


def _parts(message: bytes) -> list[str]:
    try:
        parts = message.decode().split("\0")
    except UnicodeDecodeError:
        raise AuthenticationFailedError(
            "Authentication failed: the PLAIN message is not valid UTF-8"
        ) from None
    if len(parts) != 3:
        raise AuthenticationFailedError(
            "Authentication failed: Invalid SASL/PLAIN response: expected 3 tokens, separated by NUL"
        )
    return parts
