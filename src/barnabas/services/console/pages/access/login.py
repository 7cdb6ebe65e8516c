"""Login and logout."""

from __future__ import annotations

from typing import NoReturn

import msgspec

from barnabas.services.console.access.authenticators import LoginGate, inner_path
from barnabas.services.console.access.oidc import OidcError
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import ElsewhereError, UnauthorizedError
from barnabas.services.console.needs import NOBODY
from barnabas.services.console.routes import ActionResult, Routes
from barnabas.services.console.users import Head

routes = Routes()


class LoginQuery(msgspec.Struct):
    next: str = "/"


class LoginPage(msgspec.Struct):
    next: str
    password: bool
    """Login with a user name and password is available."""
    provider: bool
    """Login with an identity provider is available."""
    as_yourself: bool
    """User name and password are checked by the brokers."""
    user: str = msgspec.field(name="visitor")


class LoginForm(msgspec.Struct):
    name: str
    password: str
    next: str = "/"

    def __repr__(self) -> str:
        return f"LoginForm(name={self.name!r})"


class LogoutForm(msgspec.Struct):
    pass


class CallbackQuery(msgspec.Struct):
    state: str = ""
    code: str = ""
    iss: str = ""
    error: str = ""


@routes.page("/login", needs=NOBODY, template="access/login.html", outside=True)
async def show_login(context: RequestScope, query: LoginQuery) -> LoginPage:
    """Login page with the available login methods."""
    gate, _ = _gate(context)
    return LoginPage(
        inner_path(query.next),
        gate.has_password,
        gate.oidc is not None,
        gate.login.kind == "kafka",
        context.user.name if context.user.has_session else "",
    )


@routes.action("/login", needs=NOBODY, outside=True)
async def log_in(context: RequestScope, form: LoginForm) -> ActionResult:
    """Log in with a name and a password. The response sets a cookie; programs send a token with each request."""
    gate, head = _gate(context)
    context.headers.append(await gate.log_in(head, form.name, form.password))
    return ActionResult("", inner_path(form.next))


@routes.action("/logout", needs=NOBODY, outside=True)
async def log_out(context: RequestScope, form: LogoutForm) -> ActionResult:
    """End the session."""
    gate, head = _gate(context)
    context.headers.append(await gate.log_out(head))
    return ActionResult("", "/login")


@routes.page("/login/oidc", needs=NOBODY, template="access/login.html", outside=True)
async def begin_oidc(context: RequestScope, query: LoginQuery) -> LoginPage:
    """Redirect to the identity provider for login."""
    gate, _ = _gate(context)
    try:
        location, cookie = await gate.begin_oidc(inner_path(query.next))
    except OidcError as error:
        raise UnauthorizedError(f"You are not logged in: {error}") from None
    _go(context, location, [cookie])


@routes.page("/login/oidc/callback", needs=NOBODY, template="access/login.html", outside=True)
async def end_oidc(context: RequestScope, query: CallbackQuery) -> LoginPage:
    """Redirect target of the identity provider after login."""
    gate, head = _gate(context)
    see, cookies = await gate.end_oidc(head, query.state, "" if query.error else query.code, query.iss)
    _go(context, see, cookies)


def _go(context: RequestScope, location: str, cookies: list[tuple[str, str]]) -> NoReturn:
    context.headers.extend(cookies)
    raise ElsewhereError(location)


def _gate(context: RequestScope) -> tuple[LoginGate, Head]:
    if not isinstance(context.gate, LoginGate) or context.head is None:
        raise ElsewhereError("/")  # login is disabled
    return context.gate, context.head
