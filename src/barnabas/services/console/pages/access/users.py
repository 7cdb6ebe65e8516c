"""SCRAM users of a cluster."""

from __future__ import annotations

from typing import Literal

import msgspec

from barnabas.client.access import delete_user, describe_users, set_password
from barnabas.security.authn import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism
from barnabas.security.authz import Operation
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError, StaleError
from barnabas.services.console.needs import administer, cluster
from barnabas.services.console.pages.access.acls import may_administer
from barnabas.services.console.routes import ActionResult, Routes

routes = Routes()

MIN_PASSWORD = 8
MAX_SHOWN = 500


class UsersQuery(msgspec.Struct):
    q: str = ""


class UserRow(msgspec.Struct):
    name: str
    mechanisms: dict[str, int]
    """Number of iterations by mechanism."""


class UsersPage(msgspec.Struct):
    found: int
    users: list[UserRow]
    may_change: bool


class PasswordForm(msgspec.Struct):
    user: str
    password: str
    mechanism: Literal["both", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "both"
    iterations: int = MIN_ITERATIONS
    existing: bool = False
    """False: create a user, which must not exist; True: change the password of an existing user."""

    def __repr__(self) -> str:
        return f"PasswordForm(user={self.user!r})"


class RemovedUser(msgspec.Struct):
    user: str


@routes.page("/access/users", needs=cluster(Operation.DESCRIBE), template="access/users.html")
async def show_users(context: RequestScope, query: UsersQuery) -> UsersPage:
    """SCRAM users and their mechanisms. Brokers neither store nor return passwords."""
    found = [each for each in await describe_users(context.client) if query.q.lower() in each.name.lower()]
    rows = [
        UserRow(each.name, {kind.sasl_name: count for kind, count in each.iterations.items()})
        for each in found[:MAX_SHOWN]
    ]
    may_change = await may_administer(context, Operation.ALTER)
    return UsersPage(len(found), rows, may_change)


@routes.action("/access/users", needs=cluster(Operation.ALTER) & administer())
async def set_user_password(context: RequestScope, form: PasswordForm) -> ActionResult:
    """Create a user or change a password. Brokers receive keys derived from the password, not the password."""
    _check(form)
    is_there = bool(await describe_users(context.client, [form.user]))
    if is_there and not form.existing:
        raise StaleError(f"User {form.user} already exists")
    if form.existing and not is_there:
        raise StaleError(f"User {form.user} no longer exists")
    mechanisms = [each for each in ScramMechanism if form.mechanism in ("both", each.sasl_name)]
    await set_password(context.client, form.user, form.password, mechanisms, form.iterations)
    done = "has another password" if form.existing else "is there"
    return ActionResult(f"The user {form.user} {done}", "/access/users")


@routes.action("/access/users/remove", needs=cluster(Operation.ALTER) & administer())
async def remove_user(context: RequestScope, form: RemovedUser) -> ActionResult:
    """Remove a user from all mechanisms. ACLs of the user stay."""
    await delete_user(context.client, form.user)
    return ActionResult(f"The user {form.user} is removed", "/access/users")


def _check(form: PasswordForm) -> None:
    if not form.user:
        raise BadInputError("a user needs a name", "user")
    if len(form.password) < MIN_PASSWORD:
        raise BadInputError(f"a password has at least {MIN_PASSWORD} characters", "password")
    if not MIN_ITERATIONS <= form.iterations <= MAX_ITERATIONS:
        raise BadInputError(f"must be between {MIN_ITERATIONS} and {MAX_ITERATIONS}", "iterations")
