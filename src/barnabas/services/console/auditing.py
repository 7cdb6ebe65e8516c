"""Where changes are written down: before the act, and completed after it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from barnabas.services.console.context import Context
from barnabas.services.console.gate import Head
from barnabas.services.console.routes import Match
from barnabas.security.authz.authorizer import Action


class Auditing(Protocol):
    def act(self, head: Head, context: Context, match: Match, form: Any) -> AbstractAsyncContextManager[None]:
        """Around one action. An act that cannot be written down does not happen."""
        ...

    async def refused(self, head: Head, context: Context, match: Match, action: Action) -> None:
        """The visitor lacks a right."""
        ...
