"""A console with a user and a token for each role."""

from __future__ import annotations

import json
from http.cookies import SimpleCookie
from typing import Any

from barnabas.services.console.access.model import (
    AccessSettings,
    Grant,
    LoginKind,
    LoginSettings,
    MaskRule,
    Role,
)
from barnabas.services.console.access.passwords import ApiToken, digest_of, hash_of
from tests.services.console.web import FORM, JSON, Answer, RunningConsole, Web

CHEAP = 14
PASSWORD = "a password"
_HASH = hash_of(PASSWORD, CHEAP)
NOBODY = "stranger"
NAMES = {role.name.lower(): role for role in Role}
"""Users and tokens are called as their role."""


def with_roles(**others: Any) -> AccessSettings:
    """One user without a role is included."""
    users = dict.fromkeys([*NAMES, NOBODY], _HASH)
    grants = [Grant(role, (name,), tokens=(name,)) for name, role in NAMES.items()]
    tokens = [ApiToken(name, digest_of(token_of(name))) for name in users]
    return AccessSettings(
        LoginSettings(LoginKind.SERVICE, users), tuple(grants), tokens=tuple(tokens), **others
    )


def masked(**rule: Any) -> AccessSettings:
    return with_roles(masks=(MaskRule(**rule),))


def token_of(name: str) -> str:
    return f"bct_{name}"


def by_token(console: RunningConsole, name: str) -> Web:
    web = console.web()
    web.headers["Authorization"] = f"Bearer {token_of(name)}"
    return web


def logged_in(console: RunningConsole, name: str, password: str = PASSWORD) -> Web:
    web = console.web()
    web.headers["Cookie"] = logged_in_at(web, name, password)
    return web


def logged_in_at(web: Web, name: str, password: str) -> str:
    """The cookie of a new session."""
    answer = log_in(web, name, password)
    assert answer.status == 303, answer.text
    return cookie_of(answer)


def log_in(web: Web, name: str, password: str, **headers: str) -> Answer:
    form = f"name={name}&password={password.replace(' ', '+')}".encode()
    return web.ask("POST", "/login", form, **{"Content-Type": FORM, **headers})


def cookie_of(answer: Answer) -> str:
    found = [SimpleCookie(each) for each in answer.headers.get_all("set-cookie", [])]
    return "; ".join(f"{name}={morsel.value}" for each in found for name, morsel in each.items())


def change(web: Web, path: str, fields: dict[str, Any]) -> Answer:
    """Any path of the API."""
    return web.ask("POST", path, json.dumps(fields).encode(), **{"Content-Type": JSON})
